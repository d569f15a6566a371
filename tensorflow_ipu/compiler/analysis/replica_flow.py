"""Dataflow analysis of values that differ between replicas: the base of two analyses."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from tensorflow.core.framework import node_def_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir import collectives
from tensorflow_ipu.compiler.ir.dataflow import Summaries
from tensorflow_ipu.compiler.ir.program_functions import ProgramOp


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
        if op.type == op_names.EQUALITY_PROMISE or collectives.equalises(op.node, self.replicas):
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
