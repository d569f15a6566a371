"""Functions that make graphs of graphs: the module `popxl.transforms`."""

from tensorflow_ipu.frontends.popxl.transforms.differentiation import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    autodiff,
    keep_activations,
)
from tensorflow_ipu.frontends.popxl.transforms.outlining import add_input, outline, outline_whole
from tensorflow_ipu.frontends.popxl.transforms.plans import (
    decompose_sum,
    io_tile_exchange,
    merge_exchange,
    plan_as_pipeline,
    plan_stash,
)

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
