"""`bound`: the temporary memory that an op may take on a tile."""

from __future__ import annotations

from tensorflow_ipu.costs.cost import Resources, UnknownCostError

# The least part of a tile's memory that temporaries can be bound to.
_LEAST_PROPORTION = 1 / 64


def bound(resources: Resources) -> float:
    """Returns the bytes of a tile that temporaries of an op should not exceed.

    Proportion x bytes per tile (`availableMemoryProportion`). Source: poplibs.

    Args:
        resources: what the op has at its disposal.

    Raises:
        UnknownCostError: the proportion is negative.
    """
    if not resources.memory_proportion >= 0:
        raise UnknownCostError(
            f"Expected a memory proportion of 0 or more, such as 0.6; received "
            f"{resources.memory_proportion}."
        )
    proportion = max(resources.memory_proportion, _LEAST_PROPORTION)
    return proportion * resources.chip.memory_per_tile
