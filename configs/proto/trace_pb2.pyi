from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IpuTraceCompileBeginEvent(_message.Message):
    __slots__ = ["module_name"]
    MODULE_NAME_FIELD_NUMBER: _ClassVar[int]
    module_name: bytes
    def __init__(self, module_name: _Optional[bytes] = ...) -> None: ...

class IpuTraceCompileEndEvent(_message.Message):
    __slots__ = ["duration", "instruction_info", "module_name", "tensor_map"]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_INFO_FIELD_NUMBER: _ClassVar[int]
    MODULE_NAME_FIELD_NUMBER: _ClassVar[int]
    TENSOR_MAP_FIELD_NUMBER: _ClassVar[int]
    duration: int
    instruction_info: bytes
    module_name: bytes
    tensor_map: bytes
    def __init__(self, duration: _Optional[int] = ..., module_name: _Optional[bytes] = ..., tensor_map: _Optional[bytes] = ..., instruction_info: _Optional[bytes] = ...) -> None: ...

class IpuTraceDataTransferEvent(_message.Message):
    __slots__ = ["data_transfer"]
    DATA_TRANSFER_FIELD_NUMBER: _ClassVar[int]
    data_transfer: bytes
    def __init__(self, data_transfer: _Optional[bytes] = ...) -> None: ...

class IpuTraceEvent(_message.Message):
    __slots__ = ["compile_begin", "compile_end", "data_transfer", "execute", "load_engine", "ordinal", "timestamp", "type"]
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    COMPILE_BEGIN: IpuTraceEvent.Type
    COMPILE_BEGIN_FIELD_NUMBER: _ClassVar[int]
    COMPILE_END: IpuTraceEvent.Type
    COMPILE_END_FIELD_NUMBER: _ClassVar[int]
    DATA_TRANSFER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TO_HOST_TRANSFER: IpuTraceEvent.Type
    EXECUTE: IpuTraceEvent.Type
    EXECUTE_FIELD_NUMBER: _ClassVar[int]
    HOST_TO_DEVICE_TRANSFER: IpuTraceEvent.Type
    LOAD_ENGINE: IpuTraceEvent.Type
    LOAD_ENGINE_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    compile_begin: IpuTraceCompileBeginEvent
    compile_end: IpuTraceCompileEndEvent
    data_transfer: IpuTraceDataTransferEvent
    execute: IpuTraceExecuteEvent
    load_engine: IpuTraceLoadEngineEvent
    ordinal: int
    timestamp: float
    type: IpuTraceEvent.Type
    def __init__(self, timestamp: _Optional[float] = ..., ordinal: _Optional[int] = ..., type: _Optional[_Union[IpuTraceEvent.Type, str]] = ..., compile_begin: _Optional[_Union[IpuTraceCompileBeginEvent, _Mapping]] = ..., compile_end: _Optional[_Union[IpuTraceCompileEndEvent, _Mapping]] = ..., data_transfer: _Optional[_Union[IpuTraceDataTransferEvent, _Mapping]] = ..., load_engine: _Optional[_Union[IpuTraceLoadEngineEvent, _Mapping]] = ..., execute: _Optional[_Union[IpuTraceExecuteEvent, _Mapping]] = ...) -> None: ...

class IpuTraceExecuteEvent(_message.Message):
    __slots__ = ["activity_trace", "module_name"]
    ACTIVITY_TRACE_FIELD_NUMBER: _ClassVar[int]
    MODULE_NAME_FIELD_NUMBER: _ClassVar[int]
    activity_trace: bytes
    module_name: bytes
    def __init__(self, activity_trace: _Optional[bytes] = ..., module_name: _Optional[bytes] = ...) -> None: ...

class IpuTraceLoadEngineEvent(_message.Message):
    __slots__ = ["module_name"]
    MODULE_NAME_FIELD_NUMBER: _ClassVar[int]
    module_name: bytes
    def __init__(self, module_name: _Optional[bytes] = ...) -> None: ...
