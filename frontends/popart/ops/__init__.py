"""The table of ops: what each node of a model computes. Importing this fills it."""

from tensorflow_ipu.frontends.popart.ops import (
    control,
    effects,
    elementwise,
    indexing,
    linear,
    logic,
    losses,
    movement,
    normalization,
    pooling,
    random_values,
    reductions,
)

__all__ = [
    *(
        "control",
        "effects",
        "elementwise",
        "indexing",
        "linear",
        "logic",
        "losses",
        "movement",
        "normalization",
        "pooling",
        "random_values",
        "reductions",
    ),
]
