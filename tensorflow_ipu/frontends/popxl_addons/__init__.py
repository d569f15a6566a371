"""The addons of PopXL: layers, training and schedules on top of it; the package `popxl_addons`.

It is plain Python on the API of `popxl`. A `Module` makes a graph, and factories of the variables
that are inputs of the graph (`variable_factory.py`). A `GraphWithNamedArgs` knows these inputs by
name and binds them (`graph.py`). `transforms/` makes graphs of graphs.
"""

from tensorflow_ipu.frontends.popxl_addons import (
    array_munging,
    graph,
    layers,
    ops,
    optimizers,
    performance_utils,
    rts,
    task_session,
    testing_utils,
    transforms,
    utils,
)
from tensorflow_ipu.frontends.popxl_addons import compiler_hints as patterns
from tensorflow_ipu.frontends.popxl_addons import utils as debugging
from tensorflow_ipu.frontends.popxl_addons.array_munging import (
    handle_negative_axis,
    pad_axis,
    repeat,
    repeat_axis,
    repeat_shard,
    shard,
    shard2D,
    split2D,
    squeeze_safe,
    tensor_parallel_input,
    tensor_parallel_output,
    unshard,
    unshard2D,
    unshard_arrays,
)
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree, NamedTensors, TensorMap
from tensorflow_ipu.frontends.popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.graph_cache import (
    GraphCache,
    argument_hash,
    bound_arguments,
    function,
    get_function_hash,
    tensor_hash,
)
from tensorflow_ipu.frontends.popxl_addons.module import Module, create_grad_graph_info
from tensorflow_ipu.frontends.popxl_addons.named_replica_grouping import NamedReplicaGrouping
from tensorflow_ipu.frontends.popxl_addons.ops import (
    cross_entropy,
    cross_entropy_with_grad,
    fp8_amax_scale,
    host_load,
    host_store,
)
from tensorflow_ipu.frontends.popxl_addons.performance_utils import (
    FLOPS_FNS,
    elementwise_binary_flops,
    evaluate_FLOPs,
    evaluate_ir_FLOPs,
    format_flops_scientific,
    group_norm_flops,
    matmul_flops,
    print_FLOPs,
    total_FLOPs,
)
from tensorflow_ipu.frontends.popxl_addons.remote import (
    NamedRemoteBuffers,
    create_remote_buffer,
    load_remote,
    load_remote_graph,
    named_buffers,
    named_variable_buffers,
    store_remote,
    store_remote_graph,
)
from tensorflow_ipu.frontends.popxl_addons.task_session import (
    InputStreams,
    OutputStreams,
    ReportMissingMethods,
    TaskSession,
    initialise_memmap_dir_from_checkpoint,
    write_variables_pb,
)
from tensorflow_ipu.frontends.popxl_addons.transforms import (
    BatchSerialResult,
    Pipelining,
    RemoteBufferWithOffset,
    RemoteHandle,
    add_recompute_inputs,
    autodiff,
    autodiff_with_accumulation,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
    batch_serialise_non_overlapped,
    batch_serialise_overlapped,
    disable_fc_pass,
    enable_fc_pass,
    pipelined_execution,
    recompute_graph,
    remap_grad_info,
    set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.rewrites import (
    called_graph_paths,
    is_subgraph,
    repeat_graph,
    route_tensor_into_graph,
)
from tensorflow_ipu.frontends.popxl_addons.utils import (
    LEVELS,
    LEVELS_TYPE,
    MODEL_LOG_LEVEL,
    MODEL_LOG_LEVEL_VAL,
    OrderedDict,
    WeightsDict,
    duplicate_items,
    null_context,
    overrides,
    print_tensor,
    print_text,
    suffix_graph_name,
    timer,
)
from tensorflow_ipu.frontends.popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
    seed_variable,
)

# The commit of the original that a package was built from: there is none.
GIT_COMMIT = None
