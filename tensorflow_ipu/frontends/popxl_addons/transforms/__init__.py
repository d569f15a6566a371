"""Functions that make graphs of graphs: the module `popxl_addons.transforms`."""

from tensorflow_ipu.frontends.popxl_addons.compiler_hints import (
    disable_fc_pass,
    enable_fc_pass,
    set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu,
)
from tensorflow_ipu.frontends.popxl_addons.transforms import rewrites as repeat_graph
from tensorflow_ipu.frontends.popxl_addons.transforms.autodiff import (
    add_recompute_inputs,
    autodiff,
    autodiff_with_accumulation,
    recompute_graph,
    remap_grad_info,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation import (
    BatchSerialResult,
    RemoteBufferWithOffset,
    RemoteHandle,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
    batch_serialise_non_overlapped,
    batch_serialise_overlapped,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.pipelining import (
    Pipelining,
    pipelined_execution,
)

__all__ = [
    "BatchSerialResult",
    "Pipelining",
    "RemoteBufferWithOffset",
    "RemoteHandle",
    "add_recompute_inputs",
    "autodiff",
    "autodiff_with_accumulation",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "batch_serialise_non_overlapped",
    "batch_serialise_overlapped",
    "disable_fc_pass",
    "enable_fc_pass",
    "pipelined_execution",
    "recompute_graph",
    "remap_grad_info",
    "repeat_graph",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
]
