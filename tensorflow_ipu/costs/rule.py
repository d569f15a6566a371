"""`Rule`: how the cost of an op type is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType, UnknownCostError


class Rule(NamedTuple):
    """How the cost of op types is found.

    Args:
        cost: gives it; pure. Raises `UnknownCostError`, and nothing else, for an op whose operands,
            shapes, attributes or options it does not know.
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


def largest(tensors: Sequence[TensorType]) -> TensorType:
    """Returns the tensor with the most elements.

    Args:
        tensors: inputs or results of an op.

    Raises:
        UnknownCostError: there is none.
    """
    if not tensors:
        raise UnknownCostError("Expected one or more tensors; received none.")
    return max(tensors, key=lambda tensor: tensor.elements)
