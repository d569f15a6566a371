"""Functions that make graphs of graphs: the module `popxl_addons.transforms`."""

from tensorflow_ipu.frontends.popxl_addons.transforms import repeat_graph
from tensorflow_ipu.frontends.popxl_addons.transforms.autodiff import (
    autodiff,
    autodiff_with_accumulation,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation import (
    BatchSerialResult,
    RemoteHandle,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.pipelining import (
    Pipelining,
    pipelined_execution,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.recompute import recompute_graph

__all__ = [
    "BatchSerialResult",
    "Pipelining",
    "RemoteHandle",
    "autodiff",
    "autodiff_with_accumulation",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "pipelined_execution",
    "recompute_graph",
    "repeat_graph",
]
