"""How an op type's cost is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources


class Rule(NamedTuple):
    """How the cost of op types is found.

    Args:
        cost: gives it; pure.
        reads: attributes that it reads: no others may change it.
    """

    cost: Callable[[OpSpec, Resources], Cost]
    reads: tuple[str, ...] = ()


def rules(
    cost: Callable[[OpSpec, Resources], Cost], types: str, reads: str = ""
) -> dict[str, Rule]:
    """Returns the same rule for several op types.

    Args:
        cost: gives the cost.
        types: op types, separated by blanks.
        reads: attributes that it reads, separated by blanks.
    """
    return dict.fromkeys(types.split(), Rule(cost, tuple(reads.split())))
