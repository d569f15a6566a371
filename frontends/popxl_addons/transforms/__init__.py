"""Functions that make graphs of graphs: the module `popxl_addons.transforms`."""

from tensorflow_ipu.frontends.popxl_addons.transforms.autodiff import (
    autodiff,
    autodiff_with_accumulation,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.pipelining import (
    Pipelining,
    pipelined_execution,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.recompute import recompute_graph

__all__ = [
    "Pipelining",
    "autodiff",
    "autodiff_with_accumulation",
    "pipelined_execution",
    "recompute_graph",
]
