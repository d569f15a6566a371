"""Functions that make graphs of graphs: the module `popxl.transforms`."""

from tensorflow_ipu.frontends.popxl.transforms.activations import keep_activations
from tensorflow_ipu.frontends.popxl.transforms.autodiff import autodiff
from tensorflow_ipu.frontends.popxl.transforms.exchanges import (
    decompose_sum,
    io_tile_exchange,
    merge_exchange,
)
from tensorflow_ipu.frontends.popxl.transforms.grad_graph_info import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)
from tensorflow_ipu.frontends.popxl.transforms.outlining import outline, outline_whole
from tensorflow_ipu.frontends.popxl.transforms.routing import add_input
from tensorflow_ipu.frontends.popxl.transforms.stages import plan_as_pipeline, plan_stash

__all__ = [
    "ExpectedConnection",
    "ExpectedConnectionType",
    "GradGraphInfo",
    "add_input",
    "autodiff",
    "decompose_sum",
    "io_tile_exchange",
    "keep_activations",
    "merge_exchange",
    "outline",
    "outline_whole",
    "plan_as_pipeline",
    "plan_stash",
]
