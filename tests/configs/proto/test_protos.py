"""The messages: names and numbers that others rely on, and no clash with TensorFlow's."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs import enums
from tensorflow_ipu.configs.proto import ipu_options_pb2, trace_pb2


def numbers(message):
    return {field.name: field.number for field in message.DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "IpuTraceEvent",
            {
                "timestamp": 1,
                "ordinal": 2,
                "type": 3,
                "compile_begin": 5,
                "compile_end": 6,
                "data_transfer": 7,
                "load_engine": 8,
                "execute": 9,
            },
        ),
        ("IpuTraceCompileBeginEvent", {"module_name": 2}),
        (
            "IpuTraceCompileEndEvent",
            {"duration": 1, "module_name": 2, "tensor_map": 3, "instruction_info": 4},
        ),
        ("IpuTraceDataTransferEvent", {"data_transfer": 1}),
        ("IpuTraceLoadEngineEvent", {"module_name": 1}),
        ("IpuTraceExecuteEvent", {"activity_trace": 1, "module_name": 2}),
    ],
)
def test_messages_have_the_field_numbers_of_the_original(name, expected):
    message = getattr(trace_pb2, name)
    assert numbers(message) == expected
    assert message.DESCRIPTOR.full_name == f"tensorflow.{name}"


def test_types_of_trace_events_have_numbers_of_original():
    assert trace_pb2.IpuTraceEvent.Type.items() == [
        ("COMPILE_BEGIN", 0),
        ("COMPILE_END", 1),
        ("HOST_TO_DEVICE_TRANSFER", 2),
        ("DEVICE_TO_HOST_TRANSFER", 3),
        ("LOAD_ENGINE", 4),
        ("EXECUTE", 5),
    ]


def test_trace_event_has_bytes_of_wire_format():
    """Bytes written by hand from the wire format: field 1 double, 2 and 3 varints, 8 a message."""
    event = trace_pb2.IpuTraceEvent(timestamp=1.0, ordinal=1, type=4)
    event.load_engine.module_name = b"c"
    expected = b"\x09" + bytes(6) + b"\xf0\x3f" + b"\x10\x01" + b"\x18\x04" + b"\x42\x03\x0a\x01c"
    assert event.SerializeToString(deterministic=True) == expected


@pytest.mark.parametrize(
    ("name", "enum"),
    [
        ("IpuDeviceConnectionType", enums.DeviceConnectionType),
        ("IpuSelectionOrder", enums.SelectionOrder),
        ("IpuExecutionProfileType", enums.ExecutionProfileType),
        ("IpuSchedulingAlgorithm", enums.SchedulingAlgorithm),
        ("IpuMergeRemoteBuffersBehaviour", enums.MergeRemoteBuffersBehaviour),
        ("IpuStochasticRoundingBehaviour", enums.StochasticRoundingBehaviour),
    ],
)
def test_enumerations_have_the_same_numbers(name, enum):
    found = dict(getattr(ipu_options_pb2, name).items())
    assert found == {member.name: member.value for member in enum}


@pytest.mark.parametrize("module", [ipu_options_pb2, trace_pb2])
def test_files_are_registered_under_our_own_names(module):
    assert module.DESCRIPTOR.name.startswith("tensorflow_ipu/configs/proto/")
