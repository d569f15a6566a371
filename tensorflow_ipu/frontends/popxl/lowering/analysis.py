"""Facts of an Ir before it is lowered: its use of the device, and the order of its writes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl.ir import Graph, Ir, Op, reachable, storage_of
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
from tensorflow_ipu.frontends.popxl.tensor import Tensor, Variable
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext
from tensorflow_ipu.util.notices import warn_once


def home_of(tensor: Tensor) -> int | None:
    """Returns the IPU of the first op that uses a tensor, in its graph or in a callee.

    Args:
        tensor: a variable, or a tensor that one program of a session makes and another one takes.

    Returns:
        The IPU; None if no op says it.
    """
    return next(_users(tensor), None)


class Places:
    """Where the tensors of the graphs of a program are when these end."""

    def __init__(self) -> None:
        """Starts with nothing known."""
        self._known: dict[Graph, dict[Tensor, int | None]] = {}

    def end_of(self, graph: Graph, tensor: Tensor) -> int | None:
        """Returns the IPU of the op that makes a tensor, or of the last that modifies it.

        Args:
            graph: the graph that the tensor is in.
            tensor: the tensor.

        Returns:
            The IPU; for an input that nothing modifies, that of its first user. None if nothing
            says it.
        """
        ends = self._ends(graph)
        found = (ends.get(root) for root in storage_of(tensor))
        return next((ipu for ipu in found if ipu is not None), home_of(tensor))

    def _ends(self, graph: Graph) -> Mapping[Tensor, int | None]:
        """The IPU of each tensor with storage of its own that ops of a graph make or modify."""
        if graph not in self._known:
            ends = self._known[graph] = {}
            for op in graph.ops:
                called: Graph | None = op.attributes.get("graph") if op.called else None
                for index, tensor in enumerate(op.outputs):
                    inside = None if called is None else called.outputs[index]
                    ends[tensor] = self._end(called, inside, op.ipus[index])
                for position in op.writes:
                    inside = None if called is None else called.inputs[position]
                    ipu = self._end(called, inside, op.ipu)
                    ends.update(dict.fromkeys(storage_of(op.inputs[position]), ipu))
        return self._known[graph]

    def _end(self, called: Graph | None, inside: Tensor | None, ipu: int) -> int | None:
        """Returns the IPU of a result: the callee's if the op calls a graph, else its own."""
        return ipu if called is None or inside is None else self.end_of(called, inside)


def _users(tensor: Tensor) -> Iterator[int]:
    """The IPUs of the ops that use a tensor: those in its own graph, then those in others."""
    calls: list[tuple[Op, int]] = []
    for op in tensor.consumers:
        for position in (i for i, given in enumerate(op.inputs) if given is tensor):
            if op.called:
                calls.append((op, position))
            else:
                yield op.source_ipu
    for op, position in calls:
        graph = op.attributes.get("graph")
        if graph is None:
            yield op.ipu
        elif position < len(graph.inputs):
            yield from _users(graph.inputs[position])


def ipus_used(ir: Ir) -> int:
    """Returns the number of IPUs of a replica: the highest IPU of any op, plus 1."""
    ops = itertools.chain.from_iterable(graph.ops for graph in reachable(ir.main_graph))
    return max((ipu for op in ops for ipu in (op.ipu, *op.ipus)), default=0) + 1


def used_variables(ir: Ir) -> list[Variable]:
    """Returns the variables that some op takes, or that are in remote buffers that are used."""
    buffers = set(used_buffers(ir))
    return [
        variable
        for variable in ir.main_graph.variables
        if (variable.consumers if variable.entry is None else variable.entry[0] in buffers)
    ]


def used_buffers(ir: Ir) -> list[RemoteBuffer]:
    """Returns the remote buffers that some op loads from or stores to."""
    ops = itertools.chain.from_iterable(graph.ops for graph in reachable(ir.main_graph))
    buffers = (op.attributes.get("buffer") for op in ops)
    return list(dict.fromkeys(buffer for buffer in buffers if buffer is not None))


def kept_tensors(main: Graph) -> list[Tensor]:
    """Returns the tensors that one part of a program makes and another takes: they last, too.

    Args:
        main: the main graph.
    """
    return list(
        dict.fromkeys(
            root
            for op in main.ops
            for tensor in op.inputs
            for root in storage_of(tensor)
            if root.producer is not None
            and root.producer.execution_context is not op.execution_context
        )
    )


def last_writers(ops: Sequence[Op], state: Collection[Tensor]) -> dict[Tensor, Op]:
    """Returns the last op that makes or modifies each of the tensors that last.

    Args:
        ops: the ops of a part of a program, in order.
        state: the tensors that last.
    """
    found = {}
    for op in ops:
        written = [root for i in op.writes for root in storage_of(op.inputs[i])]
        found.update({root: op for root in (*op.fresh_outputs, *written) if root in state})
    return found


def check_order(graph: Graph) -> None:
    """Refuses a graph whose result could depend on an order that it leaves open.

    Args:
        graph: the graph; those that it calls are not looked at.

    Raises:
        popart.popart_exception: If an op modifies a tensor that another op uses, and neither data
            nor `in_sequence` decides which of the two is first, and not both are calls that
            modify it.
    """
    if not any(op.writes for op in graph.ops):
        return
    numbers = {op: number for number, op in enumerate(graph.ops)}
    before = _before(graph.ops, numbers)
    for writer, user in _neighbors(graph):
        one, other = numbers[writer], numbers[user]
        if not (before[one] >> other & 1 or before[other] >> one & 1):
            raise popart_exception(_message(writer, user))


def _neighbors(graph: Graph) -> Iterator[tuple[Op, Op]]:
    """Yields each op that modifies a tensor with each op that uses it before the next such op.

    If these are in order, so are all, as writers are in order with each other.
    """
    # The last writer of a tensor in a part of the program, and those that used it since.
    recent: dict[tuple[Tensor, ExecutionContext], list[Op]] = {}
    for op in graph.ops:
        if op.is_view and not op.writes:
            continue  # to make a view reads nothing
        written = _roots(op.inputs[position] for position in op.writes)
        for root in _roots(op.inputs):
            users = recent.setdefault((root, op.execution_context), [])
            if root in written:
                yield from ((op, user) for user in users)
                users.clear()
            elif users and root in _roots(users[0].inputs[i] for i in users[0].writes):
                yield users[0], op
            users.append(op)


def _roots(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Returns the tensors with storage of their own whose storage some tensors share."""
    return list(dict.fromkeys(root for tensor in tensors for root in storage_of(tensor)))


def _before(ops: list[Op], numbers: dict[Op, int]) -> list[int]:
    """Returns for each op a set, as bits, of the ops that run before it in any order."""
    before: list[int] = []
    # The last call that modifies a tensor in a part of the program.
    calls: dict[tuple[Tensor, ExecutionContext], Op] = {}
    for op in ops:
        found = 0
        made_by = (tensor.producer for tensor in op.inputs)
        for earlier in (*made_by, *op.after, *_calls_before(op, calls)):
            if earlier is not None:
                number = numbers[earlier]
                found |= before[number] | 1 << number
        before.append(found)
    return before


def _calls_before(op: Op, calls: dict[tuple[Tensor, ExecutionContext], Op]) -> list[Op]:
    """Returns the earlier calls that modify the same tensors, and records this call.

    Such calls stand in one order, that of creation: the updates of a variable by several graphs
    need no `in_sequence`.
    """
    if not op.called:
        return []
    keys = [(root, op.execution_context) for root in _roots(op.inputs[i] for i in op.writes)]
    earlier = [calls[key] for key in keys if key in calls]
    calls.update(dict.fromkeys(keys, op))
    return earlier


def _message(writer: Op, user: Op) -> str:
    return (
        f"Inplacing ambiguity detected. {writer!r} ({writer.site}) modifies a tensor that "
        f"{user!r} ({user.site}) uses, and nothing says which of the two runs first. Create both "
        "in a scope of popxl.in_sequence(), or use what the one returns in the other."
    )


def warn_of_copies(graph: Graph) -> None:
    """Warns if a graph writes into a copy of its input, and nothing reads the result.

    Args:
        graph: a graph that is called.
    """
    inputs = {tensor: position for position, tensor in enumerate(graph.inputs)}
    written: dict[Tensor, Op] = {}
    for op in graph.ops:
        for root in {root for tensor in op.inputs for root in storage_of(tensor)}:
            # To make a view reads nothing; a write reads what an earlier one left.
            if not op.is_view or op.writes:
                written.pop(root, None)
        for i in op.writes:
            written.update(dict.fromkeys(storage_of(op.inputs[i]), op))
    returned = {root for tensor in graph.outputs for root in storage_of(tensor)}
    for tensor, op in written.items():
        position = inputs.get(tensor)
        if position is None or tensor.by_ref or tensor in returned:
            continue
        if not any(position in caller.modified for caller in _callers(graph)):
            warn_once(
                "%r (%s) writes into the input %s of the graph %s, which is a copy of what callers "
                "pass in, and nothing reads the copy. To change what they pass in, annotate the "
                "argument with popxl.TensorByRef, or call set_parent_input_modified of the call's "
                "info.",
                op,
                op.site,
                tensor.name,
                graph.id,
                key="popxl writes into a copy",
            )


def _callers(graph: Graph) -> Iterator[Op]:
    """Yields the ops that run a graph: its call sites, and the loops that repeat it."""
    for site in graph.call_sites:
        yield site
        if site.kind.is_loop:
            yield from site.graph.call_sites
