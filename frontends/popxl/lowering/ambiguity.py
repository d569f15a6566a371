"""Refuses programs in which the order of a write and another use of a tensor is not fixed."""

from __future__ import annotations

from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.graph import Graph, storage_of


def check(graph: Graph) -> None:
    """Refuses a graph whose result could depend on an order that it leaves open.

    Args:
        graph: the graph; those that it calls are not looked at.

    Raises:
        popart.popart_exception: If an op modifies a tensor that another op uses, and neither data
            nor `in_sequence` decides which of the two is first.
    """
    writers = [op for op in graph.ops if op.writes]
    if not writers:
        return
    numbers = {op: number for number, op in enumerate(graph.ops)}
    before = _before(graph.ops, numbers)
    users: dict[object, list[Op]] = {}
    for op in graph.ops:
        for root in {root for tensor in op.inputs for root in storage_of(tensor)}:
            if not op.is_view or op.writes:  # to make a view reads nothing
                users.setdefault(root, []).append(op)
    for writer in writers:
        written = [op for i in writer.writes for op in _users(writer, i, users)]
        for user in dict.fromkeys(written):
            if writer.execution_context is not user.execution_context:
                continue  # these never run in one program
            one, other = numbers[writer], numbers[user]
            if one != other and not (before[one] >> other & 1 or before[other] >> one & 1):
                raise popart_exception(_message(writer, user))


def _users(writer: Op, position: int, users: dict[object, list[Op]]) -> list[Op]:
    """Returns the ops that use what an op writes into an input."""
    roots = storage_of(writer.inputs[position])
    return [op for root in roots for op in users.get(root, [])]


def _before(ops: list[Op], numbers: dict[Op, int]) -> list[int]:
    """Returns for each op a set, as bits, of the ops that run before it in any order."""
    before: list[int] = []
    for op in ops:
        found = 0
        made_by = (tensor.producer for tensor in op.inputs)
        for earlier in (*made_by, *op.after):
            if earlier is not None:
                number = numbers[earlier]
                found |= before[number] | 1 << number
        before.append(found)
    return before


def _message(writer: Op, user: Op) -> str:
    return (
        f"Inplacing ambiguity detected. {writer!r} ({writer.site}) modifies a tensor that "
        f"{user!r} ({user.site}) uses, and nothing says which of the two runs first. Create both "
        "in a scope of popxl.in_sequence(), or use what the one returns in the other."
    )
