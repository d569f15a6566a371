"""The table of ops: what each node of a model computes. Importing this fills it."""

from tensorflow_ipu.frontends.popart.ops import (
    collectives,
    effects,
    elementwise,
    indexing,
    linear,
    logic,
    losses,
    movement,
    newer,
    normalization,
    pooling,
    quantization,
    random_values,
    reductions,
    scattering,
)
from tensorflow_ipu.frontends.popart.ops.control_flow import packed_data, subgraphs
from tensorflow_ipu.frontends.popart.ops.nn import (
    grids,
    images,
    multi_convolution,
    recurrent,
    resizing,
    splines,
    temporal,
)

__all__ = [
    *(
        "collectives",
        "effects",
        "elementwise",
        "indexing",
        "linear",
        "logic",
        "losses",
        "movement",
        "newer",
        "normalization",
        "pooling",
        "quantization",
        "random_values",
        "reductions",
        "scattering",
    ),
    *("packed_data", "subgraphs"),
    *("grids", "images", "multi_convolution", "recurrent", "resizing", "splines", "temporal"),
]
