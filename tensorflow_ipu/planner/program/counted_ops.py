"""The ops that count: once for equal calls, in the costliest branch, in the loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorflow_ipu import op_names
from tensorflow_ipu.planner.workload import Op, Workload

UPDATE = "update"


def is_container(index: int, op: Op) -> bool:
    """Returns whether an op runs others, which count themselves.

    Args:
        index: of the op.
        op: the op.
    """
    return op.end > index + 1


def repeated(ops: Sequence[Op]) -> frozenset[int]:
    """Returns the ops whose code and vertices an IPU has already, from an earlier call.

    Args:
        ops: of a program. A call of a function that the program has once names it, as `outlined`.

    Returns:
        Their indices.
    """
    known: set[tuple[str, int | None]] = set()
    found: set[int] = set()
    for index, op in enumerate(ops):
        name = op.attributes.get("outlined")
        if name is None:
            continue
        if (name, op.ipu) in known:
            found.update(range(index + 1, op.end))
        known.add((name, op.ipu))
    return frozenset(found)


def taken(workload: Workload, cycles: np.ndarray) -> np.ndarray:
    """Returns whether each op is counted: of a conditional's branches, only the dearest is.

    Args:
        workload: the program.
        cycles: of each op with all its runs.
    """
    left = cycles.astype(np.float64)
    counted = np.ones(len(workload.ops), bool)
    # Inner conditionals come after outer ones, so they are decided before them.
    for index in range(len(workload.ops) - 1, -1, -1):
        op = workload.ops[index]
        ranges = branches(workload.ops, index) if op_names.is_conditional(op.type) else {}
        if len(ranges) > 1:
            sums = {
                branch: sum(float(left[begin:end].sum()) for begin, end in parts)
                for branch, parts in ranges.items()
            }
            dearest = max(sums, key=lambda branch: (sums[branch], -branch))
            for branch, parts in ranges.items():
                for begin, end in parts if branch != dearest else ():
                    left[begin:end] = 0.0
                    counted[begin:end] = False
    return counted


def branches(ops: Sequence[Op], index: int) -> dict[int, list[tuple[int, int]]]:
    """Returns the ops of each branch of a conditional as ranges, by the number of the branch.

    Args:
        ops: all ops.
        index: of the conditional.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    position = index + 1
    while position < ops[index].end:
        end = max(ops[position].end, position + 1)
        found.setdefault(ops[position].branch, []).append((position, end))
        position = end
    return found


def enclosing(ops: Sequence[Op], members: Sequence[int]) -> tuple[int, int]:
    """Returns the innermost range of ops, a function's or all, that some ops are in.

    Args:
        ops: all ops.
        members: indices of some, in order; at least one.
    """
    begin, end = 0, len(ops)
    for index in range(members[0]):
        op = ops[index]
        if is_container(index, op) and members[-1] < op.end:
            begin, end = index + 1, op.end
    return begin, end
