"""The operators of collectives: the module `popxl.ops.collectives.collectives`."""

from __future__ import annotations

from typing import Literal, get_args

from tensorflow_ipu.frontends.common.enums import CollectiveOperator
from tensorflow_ipu.frontends.popxl.ops.collectives.groups import CommGroup, CommGroupType

__all__ = ["OPS", "CollectiveOps", "CommGroup", "CommGroupType", "to_collective_op"]

CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]
#: Their names. The library computes the mean where "mul" is asked for, and so do programs for it.
OPS: tuple[str, ...] = get_args(CollectiveOps)
_MEMBERS = {"and": "LogicalAnd", "or": "LogicalOr", "square_add": "SquareAdd"}


def to_collective_op(op: str) -> CollectiveOperator:
    """Returns the operator with a name.

    Args:
        op: the name.

    Raises:
        ValueError: If there is none.
    """
    if op not in OPS:
        raise ValueError(f"Not a valid op: {op!r}. Must choose from: {', '.join(OPS)}.")
    return CollectiveOperator[_MEMBERS.get(op, op.capitalize())]
