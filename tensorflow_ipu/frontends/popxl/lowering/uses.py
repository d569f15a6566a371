"""Use of the device by an Ir: IPUs of tensors, variables, remote buffers, kept tensors."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from tensorflow_ipu.frontends.popxl.ir import Graph, Ir, Op, reachable, storage_of
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
from tensorflow_ipu.frontends.popxl.tensor import Tensor, Variable


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
