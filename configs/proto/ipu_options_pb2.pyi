from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

ALWAYS: IpuDeviceConnectionType
AUTO: IpuSelectionOrder
CHOOSE_BEST: IpuSchedulingAlgorithm
CLUSTERING: IpuSchedulingAlgorithm
DESCRIPTOR: _descriptor.FileDescriptor
DEVICE_PROFILE: IpuExecutionProfileType
HOOF: IpuSelectionOrder
IF_BENEFICIAL: IpuMergeRemoteBuffersBehaviour
INVALID: IpuOptionsCreator
IPU_PROFILE: IpuExecutionProfileType
IPU_UTILS: IpuOptionsCreator
LOOK_AHEAD: IpuSchedulingAlgorithm
MERGE: IpuMergeRemoteBuffersBehaviour
NEVER: IpuDeviceConnectionType
NO_MERGING: IpuMergeRemoteBuffersBehaviour
NO_PROFILE: IpuExecutionProfileType
OFF: IpuStochasticRoundingBehaviour
ON: IpuStochasticRoundingBehaviour
ON_DEMAND: IpuDeviceConnectionType
POST_ORDER: IpuSchedulingAlgorithm
PRE_COMPILE: IpuDeviceConnectionType
REPLICA_IDENTICAL_ONLY: IpuStochasticRoundingBehaviour
SHORTEST_PATH: IpuSchedulingAlgorithm
SNAKE: IpuSelectionOrder
TILE_PROFILE: IpuExecutionProfileType
ZIGZAG: IpuSelectionOrder

class IpuOptions(_message.Message):
    __slots__ = ["algebraic_simplifier_config", "cholesky_block_size", "clear_matmul_pass_type", "compilation_options", "convolution_options", "creator_id", "device_config", "device_connection_type", "enable_dynamic_slice_replacement", "enable_fast_math", "enable_gather_simplifier", "enable_matmul_combiner", "enable_multi_slice_combiner", "enable_prng_stability", "enable_remote_buffer_embedding", "enable_remote_buffers_without_device", "experimental_distributed_batch_norm_replica_group_size", "floating_point_behaviour", "gcl_options", "io_tile_available_memory_proportion", "ipu_model_config", "ipu_version", "matmul_options", "max_all_gather_buffer_size", "max_cross_replica_sum_buffer_size", "max_inter_ipu_copies_buffer_size", "max_reduce_many_buffer_size", "max_reduce_scatter_buffer_size", "max_scheduler_lookahead_depth", "max_scheduler_search_space_size", "max_send_recv_cluster_size", "merge_remote_buffers", "minimum_remote_tensor_size", "multi_replica_process_count", "multi_replica_process_index", "num_io_tiles", "place_ops_on_io_tiles", "pooling_options", "prefetch_data_streams", "profiling", "selection_order", "serialization_folder", "slice_options", "speed_size_config", "triangular_solve_expander_block_size", "use_stable_norm_statistics", "verified_transfers"]
    class AlgebraicSimplifierConfig(_message.Message):
        __slots__ = ["enable_dot_strength", "enable_fast_math"]
        ENABLE_DOT_STRENGTH_FIELD_NUMBER: _ClassVar[int]
        ENABLE_FAST_MATH_FIELD_NUMBER: _ClassVar[int]
        enable_dot_strength: bool
        enable_fast_math: bool
        def __init__(self, enable_fast_math: bool = ..., enable_dot_strength: bool = ...) -> None: ...
    class DeviceConfig(_message.Message):
        __slots__ = ["auto_count", "cfg_index"]
        AUTO_COUNT_FIELD_NUMBER: _ClassVar[int]
        CFG_INDEX_FIELD_NUMBER: _ClassVar[int]
        auto_count: int
        cfg_index: int
        def __init__(self, auto_count: _Optional[int] = ..., cfg_index: _Optional[int] = ...) -> None: ...
    class FloatingPointBehaviour(_message.Message):
        __slots__ = ["div0", "esr", "inv", "nanoo", "oflo", "set_all"]
        DIV0_FIELD_NUMBER: _ClassVar[int]
        ESR_FIELD_NUMBER: _ClassVar[int]
        INV_FIELD_NUMBER: _ClassVar[int]
        NANOO_FIELD_NUMBER: _ClassVar[int]
        OFLO_FIELD_NUMBER: _ClassVar[int]
        SET_ALL_FIELD_NUMBER: _ClassVar[int]
        div0: bool
        esr: IpuStochasticRoundingBehaviour
        inv: bool
        nanoo: bool
        oflo: bool
        set_all: bool
        def __init__(self, inv: bool = ..., div0: bool = ..., oflo: bool = ..., esr: _Optional[_Union[IpuStochasticRoundingBehaviour, str]] = ..., nanoo: bool = ..., set_all: bool = ...) -> None: ...
    class IpuModelConfig(_message.Message):
        __slots__ = ["compile_ipu_code", "ipu_model_version", "tiles_per_ipu"]
        COMPILE_IPU_CODE_FIELD_NUMBER: _ClassVar[int]
        IPU_MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
        TILES_PER_IPU_FIELD_NUMBER: _ClassVar[int]
        compile_ipu_code: bool
        ipu_model_version: str
        tiles_per_ipu: int
        def __init__(self, compile_ipu_code: bool = ..., tiles_per_ipu: _Optional[int] = ..., ipu_model_version: _Optional[str] = ...) -> None: ...
    class Profiling(_message.Message):
        __slots__ = ["auto_assign_report_subdirectories", "enable_compilation_trace", "enable_ipu_trace_events", "enable_poplar_graph", "enable_poplar_reports_cbor", "enable_poplar_reports_text", "execution_options", "execution_trace_type", "graph_options", "max_report_size", "report_directory", "report_every_nth_execution"]
        AUTO_ASSIGN_REPORT_SUBDIRECTORIES_FIELD_NUMBER: _ClassVar[int]
        ENABLE_COMPILATION_TRACE_FIELD_NUMBER: _ClassVar[int]
        ENABLE_IPU_TRACE_EVENTS_FIELD_NUMBER: _ClassVar[int]
        ENABLE_POPLAR_GRAPH_FIELD_NUMBER: _ClassVar[int]
        ENABLE_POPLAR_REPORTS_CBOR_FIELD_NUMBER: _ClassVar[int]
        ENABLE_POPLAR_REPORTS_TEXT_FIELD_NUMBER: _ClassVar[int]
        EXECUTION_OPTIONS_FIELD_NUMBER: _ClassVar[int]
        EXECUTION_TRACE_TYPE_FIELD_NUMBER: _ClassVar[int]
        GRAPH_OPTIONS_FIELD_NUMBER: _ClassVar[int]
        MAX_REPORT_SIZE_FIELD_NUMBER: _ClassVar[int]
        REPORT_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
        REPORT_EVERY_NTH_EXECUTION_FIELD_NUMBER: _ClassVar[int]
        auto_assign_report_subdirectories: bool
        enable_compilation_trace: bool
        enable_ipu_trace_events: bool
        enable_poplar_graph: bool
        enable_poplar_reports_cbor: bool
        enable_poplar_reports_text: bool
        execution_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
        execution_trace_type: IpuExecutionProfileType
        graph_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
        max_report_size: int
        report_directory: str
        report_every_nth_execution: int
        def __init__(self, enable_compilation_trace: bool = ..., enable_ipu_trace_events: bool = ..., enable_poplar_reports_text: bool = ..., enable_poplar_reports_cbor: bool = ..., execution_trace_type: _Optional[_Union[IpuExecutionProfileType, str]] = ..., enable_poplar_graph: bool = ..., report_every_nth_execution: _Optional[int] = ..., max_report_size: _Optional[int] = ..., report_directory: _Optional[str] = ..., graph_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., execution_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., auto_assign_report_subdirectories: bool = ...) -> None: ...
    class SpeedSizeConfig(_message.Message):
        __slots__ = ["allow_recompute", "always_rearrange_copies_on_the_host", "disable_graph_outlining", "merge_infeed_io_copies", "retain_control_dependencies", "scheduler_selection"]
        ALLOW_RECOMPUTE_FIELD_NUMBER: _ClassVar[int]
        ALWAYS_REARRANGE_COPIES_ON_THE_HOST_FIELD_NUMBER: _ClassVar[int]
        DISABLE_GRAPH_OUTLINING_FIELD_NUMBER: _ClassVar[int]
        MERGE_INFEED_IO_COPIES_FIELD_NUMBER: _ClassVar[int]
        RETAIN_CONTROL_DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
        SCHEDULER_SELECTION_FIELD_NUMBER: _ClassVar[int]
        allow_recompute: bool
        always_rearrange_copies_on_the_host: bool
        disable_graph_outlining: bool
        merge_infeed_io_copies: bool
        retain_control_dependencies: bool
        scheduler_selection: IpuSchedulingAlgorithm
        def __init__(self, allow_recompute: bool = ..., always_rearrange_copies_on_the_host: bool = ..., disable_graph_outlining: bool = ..., merge_infeed_io_copies: bool = ..., scheduler_selection: _Optional[_Union[IpuSchedulingAlgorithm, str]] = ..., retain_control_dependencies: bool = ...) -> None: ...
    class VerifiedInfo(_message.Message):
        __slots__ = ["key", "start_id"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        START_ID_FIELD_NUMBER: _ClassVar[int]
        key: int
        start_id: int
        def __init__(self, key: _Optional[int] = ..., start_id: _Optional[int] = ...) -> None: ...
    class VerifiedTransfers(_message.Message):
        __slots__ = ["checkpoint_in", "checkpoint_out", "enabled", "infeeds", "input_parameters", "inputs", "outfeeds", "output_parameters", "outputs"]
        class InfeedsEntry(_message.Message):
            __slots__ = ["key", "value"]
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: IpuOptions.VerifiedInfo
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ...) -> None: ...
        class OutfeedsEntry(_message.Message):
            __slots__ = ["key", "value"]
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: IpuOptions.VerifiedInfo
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ...) -> None: ...
        CHECKPOINT_IN_FIELD_NUMBER: _ClassVar[int]
        CHECKPOINT_OUT_FIELD_NUMBER: _ClassVar[int]
        ENABLED_FIELD_NUMBER: _ClassVar[int]
        INFEEDS_FIELD_NUMBER: _ClassVar[int]
        INPUTS_FIELD_NUMBER: _ClassVar[int]
        INPUT_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
        OUTFEEDS_FIELD_NUMBER: _ClassVar[int]
        OUTPUTS_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
        checkpoint_in: IpuOptions.VerifiedInfo
        checkpoint_out: IpuOptions.VerifiedInfo
        enabled: bool
        infeeds: _containers.MessageMap[str, IpuOptions.VerifiedInfo]
        input_parameters: IpuOptions.VerifiedInfo
        inputs: IpuOptions.VerifiedInfo
        outfeeds: _containers.MessageMap[str, IpuOptions.VerifiedInfo]
        output_parameters: IpuOptions.VerifiedInfo
        outputs: IpuOptions.VerifiedInfo
        def __init__(self, enabled: bool = ..., inputs: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ..., input_parameters: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ..., outputs: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ..., output_parameters: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ..., infeeds: _Optional[_Mapping[str, IpuOptions.VerifiedInfo]] = ..., outfeeds: _Optional[_Mapping[str, IpuOptions.VerifiedInfo]] = ..., checkpoint_in: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ..., checkpoint_out: _Optional[_Union[IpuOptions.VerifiedInfo, _Mapping]] = ...) -> None: ...
    ALGEBRAIC_SIMPLIFIER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CHOLESKY_BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    CLEAR_MATMUL_PASS_TYPE_FIELD_NUMBER: _ClassVar[int]
    COMPILATION_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CONVOLUTION_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CREATOR_ID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DEVICE_CONNECTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENABLE_DYNAMIC_SLICE_REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    ENABLE_FAST_MATH_FIELD_NUMBER: _ClassVar[int]
    ENABLE_GATHER_SIMPLIFIER_FIELD_NUMBER: _ClassVar[int]
    ENABLE_MATMUL_COMBINER_FIELD_NUMBER: _ClassVar[int]
    ENABLE_MULTI_SLICE_COMBINER_FIELD_NUMBER: _ClassVar[int]
    ENABLE_PRNG_STABILITY_FIELD_NUMBER: _ClassVar[int]
    ENABLE_REMOTE_BUFFERS_WITHOUT_DEVICE_FIELD_NUMBER: _ClassVar[int]
    ENABLE_REMOTE_BUFFER_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENTAL_DISTRIBUTED_BATCH_NORM_REPLICA_GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    FLOATING_POINT_BEHAVIOUR_FIELD_NUMBER: _ClassVar[int]
    GCL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    IO_TILE_AVAILABLE_MEMORY_PROPORTION_FIELD_NUMBER: _ClassVar[int]
    IPU_MODEL_CONFIG_FIELD_NUMBER: _ClassVar[int]
    IPU_VERSION_FIELD_NUMBER: _ClassVar[int]
    MATMUL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_ALL_GATHER_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_CROSS_REPLICA_SUM_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_INTER_IPU_COPIES_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_REDUCE_MANY_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_REDUCE_SCATTER_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCHEDULER_LOOKAHEAD_DEPTH_FIELD_NUMBER: _ClassVar[int]
    MAX_SCHEDULER_SEARCH_SPACE_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SEND_RECV_CLUSTER_SIZE_FIELD_NUMBER: _ClassVar[int]
    MERGE_REMOTE_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_REMOTE_TENSOR_SIZE_FIELD_NUMBER: _ClassVar[int]
    MULTI_REPLICA_PROCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    MULTI_REPLICA_PROCESS_INDEX_FIELD_NUMBER: _ClassVar[int]
    NUM_IO_TILES_FIELD_NUMBER: _ClassVar[int]
    PLACE_OPS_ON_IO_TILES_FIELD_NUMBER: _ClassVar[int]
    POOLING_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_DATA_STREAMS_FIELD_NUMBER: _ClassVar[int]
    PROFILING_FIELD_NUMBER: _ClassVar[int]
    SELECTION_ORDER_FIELD_NUMBER: _ClassVar[int]
    SERIALIZATION_FOLDER_FIELD_NUMBER: _ClassVar[int]
    SLICE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SPEED_SIZE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    TRIANGULAR_SOLVE_EXPANDER_BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    USE_STABLE_NORM_STATISTICS_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    algebraic_simplifier_config: IpuOptions.AlgebraicSimplifierConfig
    cholesky_block_size: int
    clear_matmul_pass_type: bool
    compilation_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
    convolution_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
    creator_id: IpuOptionsCreator
    device_config: _containers.RepeatedCompositeFieldContainer[IpuOptions.DeviceConfig]
    device_connection_type: IpuDeviceConnectionType
    enable_dynamic_slice_replacement: bool
    enable_fast_math: bool
    enable_gather_simplifier: bool
    enable_matmul_combiner: bool
    enable_multi_slice_combiner: bool
    enable_prng_stability: bool
    enable_remote_buffer_embedding: bool
    enable_remote_buffers_without_device: bool
    experimental_distributed_batch_norm_replica_group_size: int
    floating_point_behaviour: IpuOptions.FloatingPointBehaviour
    gcl_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
    io_tile_available_memory_proportion: float
    ipu_model_config: IpuOptions.IpuModelConfig
    ipu_version: str
    matmul_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
    max_all_gather_buffer_size: int
    max_cross_replica_sum_buffer_size: int
    max_inter_ipu_copies_buffer_size: int
    max_reduce_many_buffer_size: int
    max_reduce_scatter_buffer_size: int
    max_scheduler_lookahead_depth: int
    max_scheduler_search_space_size: int
    max_send_recv_cluster_size: int
    merge_remote_buffers: IpuMergeRemoteBuffersBehaviour
    minimum_remote_tensor_size: int
    multi_replica_process_count: int
    multi_replica_process_index: int
    num_io_tiles: int
    place_ops_on_io_tiles: bool
    pooling_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
    prefetch_data_streams: bool
    profiling: IpuOptions.Profiling
    selection_order: IpuSelectionOrder
    serialization_folder: str
    slice_options: _containers.RepeatedCompositeFieldContainer[PoplarOptionFlag]
    speed_size_config: IpuOptions.SpeedSizeConfig
    triangular_solve_expander_block_size: int
    use_stable_norm_statistics: bool
    verified_transfers: IpuOptions.VerifiedTransfers
    def __init__(self, creator_id: _Optional[_Union[IpuOptionsCreator, str]] = ..., device_config: _Optional[_Iterable[_Union[IpuOptions.DeviceConfig, _Mapping]]] = ..., selection_order: _Optional[_Union[IpuSelectionOrder, str]] = ..., device_connection_type: _Optional[_Union[IpuDeviceConnectionType, str]] = ..., ipu_version: _Optional[str] = ..., enable_remote_buffers_without_device: bool = ..., ipu_model_config: _Optional[_Union[IpuOptions.IpuModelConfig, _Mapping]] = ..., floating_point_behaviour: _Optional[_Union[IpuOptions.FloatingPointBehaviour, _Mapping]] = ..., compilation_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., convolution_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., matmul_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., pooling_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., slice_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., gcl_options: _Optional[_Iterable[_Union[PoplarOptionFlag, _Mapping]]] = ..., speed_size_config: _Optional[_Union[IpuOptions.SpeedSizeConfig, _Mapping]] = ..., max_scheduler_lookahead_depth: _Optional[int] = ..., max_scheduler_search_space_size: _Optional[int] = ..., max_cross_replica_sum_buffer_size: _Optional[int] = ..., max_reduce_scatter_buffer_size: _Optional[int] = ..., max_inter_ipu_copies_buffer_size: _Optional[int] = ..., max_send_recv_cluster_size: _Optional[int] = ..., max_reduce_many_buffer_size: _Optional[int] = ..., max_all_gather_buffer_size: _Optional[int] = ..., prefetch_data_streams: bool = ..., enable_multi_slice_combiner: bool = ..., enable_matmul_combiner: bool = ..., enable_gather_simplifier: bool = ..., enable_dynamic_slice_replacement: bool = ..., enable_remote_buffer_embedding: bool = ..., enable_prng_stability: bool = ..., clear_matmul_pass_type: bool = ..., minimum_remote_tensor_size: _Optional[int] = ..., merge_remote_buffers: _Optional[_Union[IpuMergeRemoteBuffersBehaviour, str]] = ..., triangular_solve_expander_block_size: _Optional[int] = ..., cholesky_block_size: _Optional[int] = ..., algebraic_simplifier_config: _Optional[_Union[IpuOptions.AlgebraicSimplifierConfig, _Mapping]] = ..., enable_fast_math: bool = ..., use_stable_norm_statistics: bool = ..., experimental_distributed_batch_norm_replica_group_size: _Optional[int] = ..., num_io_tiles: _Optional[int] = ..., place_ops_on_io_tiles: bool = ..., io_tile_available_memory_proportion: _Optional[float] = ..., multi_replica_process_index: _Optional[int] = ..., multi_replica_process_count: _Optional[int] = ..., serialization_folder: _Optional[str] = ..., profiling: _Optional[_Union[IpuOptions.Profiling, _Mapping]] = ..., verified_transfers: _Optional[_Union[IpuOptions.VerifiedTransfers, _Mapping]] = ...) -> None: ...

class PoplarOptionFlag(_message.Message):
    __slots__ = ["option", "value"]
    OPTION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    option: str
    value: str
    def __init__(self, option: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class IpuDeviceConnectionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class IpuSelectionOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class IpuExecutionProfileType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class IpuSchedulingAlgorithm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class IpuMergeRemoteBuffersBehaviour(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class IpuStochasticRoundingBehaviour(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class IpuOptionsCreator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
