"""Checks of collectives over replicas: group sizes, and uniform control flow around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.analysis.replica_identical import ReplicaFlow
from tensorflow_ipu.compiler.ir import dataflow, effects
from tensorflow_ipu.compiler.ir.dataflow import ProgramOp
from tensorflow_ipu.compiler.ir.program import Program, functions_run_by, node_tag
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.passes import user_ops
from tensorflow_ipu.util import op_names

#: Some nodes.
Nodes = Callable[[node_def_pb2.NodeDef], bool]


def check_uniform(program: Program, target: Target) -> None:
    """Checks that no predicate around a collective depends on the replica index.

    Raises:
        tf.errors.InvalidArgumentError: Naming the conditional or loop.
    """
    check_uniform_around(program, target.replicas, effects.is_collective)


def check_uniform_around(program: Program, replicas: int, meets: Nodes) -> None:
    """Checks that no predicate around some nodes depends on the replica index.

    The index is followed through the values of a program, into functions, branches and loops, but
    not through variables. Results of `assume_equal_across_replicas` and of collectives of all
    replicas are equal. If replicas disagree for other reasons, the engine reports it at run time.

    Args:
        program: the Program.
        replicas: number of its replicas.
        meets: which nodes need all replicas.

    Raises:
        tf.errors.InvalidArgumentError: Naming the conditional or loop.
    """
    if replicas > 1:
        entry = dataflow.entry(program)
        _Flow(program, replicas, meets).run(entry, [False] * len(entry.arguments))


class _Flow(ReplicaFlow):
    """Dataflow of the replica index; raises if control flow around a collective depends on it."""

    def __init__(self, program: Program, replicas: int, meets: Nodes) -> None:
        super().__init__(replicas)
        self._program = program
        self._meets = meets
        self._with_collectives = effects.functions_with_collectives(program, meets)

    def is_source(self, node: node_def_pb2.NodeDef) -> bool:
        """Returns whether a node gives the index."""
        return node.op == op_names.REPLICA_INDEX

    def transfer(
        self, op: ProgramOp, inputs: list[bool], inside: Sequence[list[bool]]
    ) -> Sequence[bool]:
        """Returns which results of an op may differ: all but outputs promised to be identical."""
        differs = super().transfer(op, inputs, inside)
        identical = user_ops.identical_outputs(op.node) if any(differs) else ()
        return [differ and index not in identical for index, differ in enumerate(differs)]

    def conditional(self, op: ProgramOp, inputs: list[bool]) -> Sequence[bool]:
        """Returns which results of a conditional differ."""
        if inputs[0]:
            self._check(op)
        return super().conditional(op, inputs)

    def end(
        self, op: ProgramOp, carried: list[bool], again: bool, results: list[bool]
    ) -> Sequence[bool]:
        """Returns which results of a loop differ."""
        if again:
            self._check(op)
        return super().end(op, carried, again, results)

    def _check(self, op: ProgramOp) -> None:
        """Raises if a function run by an op with a differing predicate has a collective."""
        called = [function.name for function in op.calls]
        if self._with_collectives.intersection(called):
            raise self._diverges(op.node, called)

    def _diverges(
        self, node: node_def_pb2.NodeDef, called: list[str]
    ) -> errors.InvalidArgumentError:
        what = "loop" if op_names.is_loop(node.op) else "conditional"
        return errors.InvalidArgumentError(
            None,
            None,
            f"The predicate of the {what} {node_tag(node.name)} is not replica uniform: it depends "
            f"on the replica index, but the collective {self._collective_in(called)} inside "
            f"needs all {self.replicas} replicas. Move the collective out of the {what}, compute "
            "the predicate from values that are equal on all replicas (such as the results of "
            "cross_replica_sum), or promise that it is equal with "
            "cross_replica_ops.assume_equal_across_replicas.",
        )

    def _collective_in(self, functions: list[str]) -> str:
        """Returns the name of the first collective in functions or their callees."""
        for name in functions:
            for node in self._program.functions[name].node_def:
                if self._meets(node):
                    return node_tag(node.name, name)
                called = self._with_collectives.intersection(functions_run_by(self._program, node))
                if called:
                    return self._collective_in(sorted(called))
        return ""


def check_groups(program: Program, target: Target) -> None:
    """Checks that the groups of all collectives fit the number of replicas.

    Raises:
        tf.errors.InvalidArgumentError: Naming the op and both numbers.
    """
    for function, node in program.nodes():
        if not effects.is_collective(node):
            continue
        size = effects.group_size(node, target.replicas)
        whole_only = op_names.COLLECTIVES[node.op].whole_only
        if target.replicas % size or (whole_only and size != target.replicas):
            name = node_tag(node.name, function.signature.name)
            raise _wrong_group(node, name, size, target.replicas)


def _wrong_group(
    node: node_def_pb2.NodeDef, name: str, size: int, replicas: int
) -> errors.InvalidArgumentError:
    collective = op_names.COLLECTIVES[node.op]
    if collective.whole_only:
        problem = "is not the total number of replicas"
    else:
        problem = "does not evenly divide the total number of replicas"
    return errors.InvalidArgumentError(
        None,
        None,
        f"The replica group size (got {size}) {problem} (got {replicas}): the "
        f"{collective.group} of the collective {name} ({node.op}). The program runs on "
        f"{replicas} replica(s) because of the IPUs that the device has and the program uses: "
        "change the argument, or select another number of IPUs.",
    )
