"""The ops of models; importing this package fills the op registry."""

from tensorflow_ipu.frontends.popart.ops import (
    effects,
    elementwise,
    images,
    indexing,
    linear,
    losses,
    movement,
    newer,
    normalization,
    pooling,
    random_values,
    recurrent,
    reductions,
    subgraphs,
)

__all__ = [
    "effects",
    "elementwise",
    "images",
    "indexing",
    "linear",
    "losses",
    "movement",
    "newer",
    "normalization",
    "pooling",
    "random_values",
    "recurrent",
    "reductions",
    "scattering",
    "subgraphs",
]
