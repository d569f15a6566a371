"""Gradients that a stage of a pipeline adds to an accumulator by itself.

A variable that several stages use, such as a tied embedding, has a gradient in each of them, and
the program accumulates their sum. In a pipeline the stages get to a mini-batch at different times:
waiting for the others would take a queue of gradients as large as the variable. So the compiler
lets each stage add its own part to the accumulator, and the part takes memory only until then.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tensorflow_ipu.costs.rules import zero_cost
from tensorflow_ipu.planner.workload import Op, Workload
from tensorflow_ipu.util import op_names

_SUMS = frozenset({"AddN", "AddV2"})
_ACCUMULATOR = "accumulator"


class PartialGradient(NamedTuple):
    """A stage's part of a variable's gradient; other stages have other parts.

    Args:
        buffer: the part.
        maker: the op that makes it, after which it can be added to the accumulator.
        sum: the op that adds the parts in the program.
    """

    buffer: int
    maker: int
    sum: int


def find(workload: Workload) -> tuple[PartialGradient, ...]:
    """Finds the partial gradients that stages add to accumulators by themselves.

    Args:
        workload: the program; without a pipeline there are none.
    """
    if workload.pipeline is None:
        return ()
    readers, makers = _uses(workload)
    found = []
    for index, op in enumerate(workload.ops):
        if op.type not in _SUMS or len(op.outputs) != 1:
            continue
        end = _accumulation(workload, op, readers)
        for operand in op.inputs if end is not None else ():
            maker = makers.get(operand.buffer, -1)
            if maker < 0 or readers[operand.buffer] != [index]:
                continue
            stage = workload.ops[maker].stage
            same_type = operand.type == op.outputs[0].type
            if same_type and stage is not None and end is not None and stage != end.stage:
                found.append(PartialGradient(operand.buffer or 0, maker, index))
    return tuple(found)


def _uses(workload: Workload) -> tuple[dict[int | None, list[int]], dict[int | None, int]]:
    """Returns the readers of each buffer, without pass-through ops, and its producers."""
    readers: dict[int | None, list[int]] = defaultdict(list)
    makers: dict[int | None, int] = {}
    for index, op in enumerate(workload.ops):
        if op.end > index + 1:
            continue
        made = {operand.buffer for operand in op.outputs}
        for buffer in dict.fromkeys(operand.buffer for operand in op.inputs):
            if buffer not in made or op.type not in zero_cost.RULES:
                readers[buffer].append(index)
        for buffer in made:
            makers.setdefault(buffer, index)
    return readers, makers


def _accumulation(workload: Workload, op: Op, readers: dict[int | None, list[int]]) -> Op | None:
    """Returns the op that adds a sum to an accumulator, if it is the sum's only reader."""
    users = readers[op.outputs[0].buffer]
    if op.outputs[0].buffer is None or len(users) != 1:
        return None
    end = workload.ops[users[0]]
    buffer = end.inputs[0].buffer if end.inputs else None
    number = None if buffer is None else workload.buffers[buffer].variable
    accumulates = end.type in op_names.ACCUMULATIONS and number is not None
    role = workload.variables[number].role if accumulates and number is not None else ""
    return end if role == _ACCUMULATOR else None
