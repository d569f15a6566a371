"""The tensors that a loop pushes to its gradient's accumulators."""

from __future__ import annotations

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.function_graphs import IDENTITY_OPS
from tensorflow_ipu.compiler.operators.calls import Calls, Tensor, result_index


def pushed(calls: Calls, accumulator: Tensor) -> list[Tensor]:
    """Returns the tensors that are pushed to a list which a gradient pops from.

    The forward loop pushes one in each iteration, so the list is followed back through the loops to
    where that happens.

    Args:
        calls: the calls of the Program.
        accumulator: the list.
    """
    found: list[Tensor] = []
    pending = [accumulator]
    seen: set[Tensor] = set()
    while pending:
        tensor = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        node = calls.node(tensor)
        if node is None:
            for passed in calls.passed(tensor):
                pending.append(passed.tensor)
        elif node.op == "TensorListPushBack":
            found.append(Tensor(tensor.function, node.input[1]))
        elif node.op == "TensorListPopBack":
            source = Tensor(tensor.function, node.input[0])
            if ":tensor:" in tensor.reference:  # a list of lists: its elements are lists
                pending.extend(pushed(calls, source))
            else:
                pending.append(source)
        elif op_names.is_loop(node.op) and not calls.changes(node, result_index(tensor)):
            pending.append(Tensor(tensor.function, node.input[result_index(tensor)]))
        elif node.op in IDENTITY_OPS:
            pending.append(Tensor(tensor.function, node.input[0]))
        else:
            returned = calls.returned(tensor, node)
            pending.extend([] if returned is None else [returned])
    return found
