"""Analysis of the nodes with equal results on all replicas."""

from __future__ import annotations

import abc
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.ir import dataflow, effects
from tensorflow_ipu.compiler.ir.dataflow import ProgramOp, Summaries
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.util import op_names


class ReplicaFlow(Summaries[ProgramOp, bool]):
    """Dataflow analysis of values that may differ between replicas: True if a value may.

    Results of `assume_equal_across_replicas` and of collectives of all replicas are equal. If
    replicas take different ways at a conditional or loop, all of its results differ.

    Args:
        replicas: number of replicas of the program.
    """

    nothing = False

    def __init__(self, replicas: int) -> None:
        super().__init__()
        self.replicas = replicas

    @abc.abstractmethod
    def is_source(self, node: node_def_pb2.NodeDef) -> bool:
        """Returns whether a node's results differ between replicas even if its inputs are equal."""

    def transfer(
        self, op: ProgramOp, inputs: list[bool], inside: Sequence[list[bool]]
    ) -> Sequence[bool]:
        """Returns which results of an op differ: all or none.

        There is one value at least, which tells of an op that has no results whether it does the
        same on all replicas.
        """
        if op.type == op_names.EQUALITY_PROMISE or effects.equalises(op.node, self.replicas):
            return _all(op, False)
        return _all(op, any(inputs) or self.is_source(op.node) or any(map(any, inside)))

    def join(self, value: bool, other: bool) -> bool:
        """Returns whether one of two values differs."""
        return value or other

    def unknown(self, op: ProgramOp, inputs: list[bool], name: str) -> bool:
        """Returns whether any input of an op differs."""
        return any(inputs)

    def conditional(self, op: ProgramOp, inputs: list[bool]) -> Sequence[bool]:
        """Returns which results of a conditional differ."""
        results = super().conditional(op, inputs)
        return _all(op, True) if inputs[0] else results

    def end(
        self, op: ProgramOp, carried: list[bool], again: bool, results: list[bool]
    ) -> Sequence[bool]:
        """Returns which results of a loop differ."""
        return _all(op, True) if again else carried


def _all(op: ProgramOp, differ: bool) -> list[bool]:
    return [differ] * max(len(op.outputs), 1)


# --- Analysis of the nodes with equal results on all replicas ---

#: A function and a node in it.
Place = tuple[str, str]


def differing(program: Program, replicas: int) -> frozenset[Place]:
    """Returns the nodes whose results may differ between replicas, or that not all run.

    Replicas differ by their index, their random numbers and the data of their infeeds. The analysis
    follows these through values, functions, branches, loops and variables, which start alike.
    Collectives of all replicas, and the user's promise, make values equal again.

    Args:
        program: the Program.
        replicas: number of its replicas.

    Returns:
        The nodes; none with one replica.
    """
    return _Flow(program, replicas).differing() if replicas > 1 else frozenset()


class _Flow(ReplicaFlow):
    """Dataflow analysis that repeats, also through variables, until no new difference is found."""

    def __init__(self, program: Program, replicas: int) -> None:
        super().__init__(replicas)
        self._entry = dataflow.entry(program)
        self._resources: dict[int, set[dataflow.Resource]] = defaultdict(set)
        self._uses = dataflow.resource_uses(program)  # keeps the nodes, which are told by identity
        for use in self._uses:
            if use.resource[0] != "feed":
                self._resources[id(use.node)].add(use.resource)
        self._variables: set[dataflow.Resource] = set()
        self._places: set[Place] = set()
        # Whether replicas may run the function a different number of times.
        self.context = False

    def differing(self) -> frozenset[Place]:
        """Returns the differing nodes, repeating the analysis while more variables differ."""
        before = -1
        while len(self._variables) > before:
            before = len(self._variables)
            self.forget()
            self.run(self._entry, [False] * len(self._entry.arguments))
        return frozenset(self._places)

    def is_source(self, node: node_def_pb2.NodeDef) -> bool:
        """Returns whether a node's results differ between replicas even if its inputs are equal.

        Stateful ops of this package depend on the replica: on its index, seed or feed. So does a
        collective of some replicas only.
        """
        if not op_names.is_own(node.op) or node.op == op_names.PROGRAM_VARIABLE:
            return False
        definition = op_def_registry.get(node.op)
        return definition is None or definition.is_stateful

    def visit(self, op: ProgramOp, inputs: list[bool]) -> Sequence[bool]:
        """Returns which results of an op differ, and records the op if any do."""
        results = super().visit(op, inputs)
        resources = self._resources[id(op.node)]
        if op.type not in op_names.QUERIES and (any(inputs) or self.context):
            self._variables |= resources
        apart = self.context or not self._variables.isdisjoint(resources)
        if apart or any(results):
            self._places.add((op.function, op.node.name))
        return [True] * len(op.outputs) if apart else results

    def conditional(self, op: ProgramOp, inputs: list[bool]) -> Sequence[bool]:
        """Returns which results of a conditional differ, whose branches not all may run."""
        with self._apart(inputs[0]):
            return super().conditional(op, inputs)

    def end(
        self, op: ProgramOp, carried: list[bool], again: bool, results: list[bool]
    ) -> Sequence[bool]:
        """Returns which results of a loop differ, whose body not all may run as often."""
        if again:
            with self._apart(True):
                self.run(op.calls[1], carried)
        return super().end(op, carried, again, results)

    @contextlib.contextmanager
    def _apart(self, differs: bool) -> Iterator[None]:
        """Context: the ops inside may run on some replicas only, if the predicate differs."""
        before = self.context
        self.context = before or differs
        yield
        self.context = before
