"""Compile-time constants among the tensors of a Program.

XLA compiles programs of fixed shapes, so inputs that shapes follow from have to be known to it. It
knows constants, shapes, and values computed from these alone, also through the arguments of
functions and through loop variables that do not change. It does not know variables, data of
feeds, random numbers, and the arguments of the program: with another value, they would need
another program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import op_def_registry, tensor_util

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.function_graphs import IDENTITY_OPS
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.operators.calls import Calls, Tensor, data_inputs, result_index
from tensorflow_ipu.compiler.operators.loop_accumulators import pushed

# Their results follow from the shapes of their inputs, for any values.
_SHAPES = frozenset(
    "VariableShape ZerosLike OnesLike TensorListElementShape TensorListLength".split()
).union(op_names.SHAPE_QUERIES)
# Known once the number of replicas is, which it is when a program is compiled.
_CONSTANTS = frozenset(["Const", "HostConst", op_names.REPLICA_COUNT])
# Ops that carry values from iteration to iteration in loops of TensorFlow 1.
_CARRIED = op_names.MERGES | op_names.NEXT_ITERATIONS


class _Way(NamedTuple):
    """How far a search goes.

    Args:
        through_loops: whether values that change from iteration to iteration are followed.
        arguments: the positions of the entry's arguments that count as known.
    """

    through_loops: bool
    arguments: frozenset[int]


class Constants:
    """Compile-time constants among the tensors of a Program.

    Each search is made when it is asked for.

    Args:
        program: the Program, which must not change meanwhile.
        arguments: the positions of the entry's arguments that are constants where it is launched.
    """

    def __init__(self, program: Program, arguments: Iterable[int] = ()) -> None:
        self.calls = Calls(program)
        self._entry = program.entry
        self._given = _Way(False, frozenset(arguments))
        self._known: set[Tensor] = set()
        self._unknown: dict[Tensor, str] = {}

    def cause(self, tensor: Tensor) -> str | None:
        """Returns the unknown value that a tensor depends on, None if all are constants.

        Args:
            tensor: a tensor of the Program.
        """
        return self._search(tensor, self._known, self._unknown, self._given)

    def is_computed_before(self, tensor: Tensor) -> bool:
        """Returns whether a tensor follows from constants in the program itself.

        Args:
            tensor: a tensor of the Program.
        """
        return self._search(tensor, set(), {}, _Way(False, frozenset())) is None

    def ends_after_known_iterations(self, loop: node_def_pb2.NodeDef) -> bool:
        """Returns whether the trip count of a loop is a compile-time constant.

        A loop's counter is known in each iteration, though it is no constant.

        Args:
            loop: the loop.
        """
        way = self._given._replace(through_loops=True)
        return self._search(self.calls.condition(loop), set(), {}, way) is None

    def value(self, tensor: Tensor) -> np.ndarray | None:
        """Returns the value of a constant, or of a list of constants. None for computed values.

        Args:
            tensor: a tensor of the Program.
        """
        node = self.calls.node(tensor)
        if node is None:
            passed = self.calls.passed(tensor)
            one = len(passed) == 1 and passed[0].again is None
            return self.value(passed[0].tensor) if one else None
        if node.op == "Const":
            value: np.ndarray = tensor_util.MakeNdarray(node.attr["value"].tensor)
            return value
        if node.op in IDENTITY_OPS:
            return self.value(Tensor(tensor.function, node.input[0]))
        if node.op == "Pack":
            values = [self.value(Tensor(tensor.function, name)) for name in data_inputs(node)]
            known = [value for value in values if value is not None]
            return np.stack(known) if len(known) == len(values) else None
        return None

    def _search(
        self, tensor: Tensor, known: set[Tensor], unknown: dict[Tensor, str], way: _Way
    ) -> str | None:
        """Searches the predecessors of a tensor for an unknown value.

        Args:
            tensor: the tensor.
            known: tensors that follow from nothing unknown, added to.
            unknown: tensors with the unknown value that they follow from, added to.
            way: extent of the search.
        """
        path: list[tuple[Tensor, Iterator[Tensor]]] = []
        seen: set[Tensor] = set()
        following: Tensor | None = tensor
        while True:
            if following is not None and following not in known and following not in seen:
                needs = unknown.get(following) or self._needs(following, way)
                if isinstance(needs, str):
                    unknown.update((on_path, needs) for on_path, _ in path)
                    unknown[following] = needs
                    return needs
                seen.add(following)
                path.append((following, iter(needs)))
            if not path:
                known |= seen
                return None
            following = next(path[-1][1], None)
            if following is None:
                path.pop()

    def _needs(self, tensor: Tensor, way: _Way) -> str | list[Tensor]:
        """Returns the tensors that a tensor is known by, or the name of an unknown value."""
        node = self.calls.node(tensor)
        if node is None:
            return self._needs_of_argument(tensor, way)
        if node.op in _CONSTANTS or node.op in _SHAPES:
            return []
        if op_names.is_loop(node.op) and not self.calls.changes(node, result_index(tensor)):
            return [Tensor(tensor.function, node.input[result_index(tensor)])]
        returned = self.calls.returned(tensor, node)
        if returned is not None and not op_names.is_loop(node.op):
            return [returned]
        if node.op == "TensorListPopBack":
            # An accumulator of a gradient's loop. XLA computes shapes again there.
            found = pushed(self.calls, Tensor(tensor.function, node.input[0]))
            return found or _name(node)
        definition = op_def_registry.get(node.op)
        inputs = data_inputs(node)
        simple = definition is not None and not definition.is_stateful and inputs
        if not simple or node.op in _CARRIED or op_names.is_own(node.op):
            return _name(node)
        return [Tensor(tensor.function, name) for name in inputs]

    def _needs_of_argument(self, tensor: Tensor, way: _Way) -> str | list[Tensor]:
        if tensor.function == self._entry:
            known = self.calls.position(tensor) in way.arguments
            return [] if known else f"the argument {tensor.reference} of the program"
        needs = []
        for passed in self.calls.passed(tensor):
            needs.append(passed.tensor)
            if passed.again is not None and not way.through_loops:
                return f"{_name(passed.node)}, which changes it"
            needs.extend([passed.again] if passed.again is not None else [])
        return needs or f"the argument {tensor.reference} of {tensor.function}"


def _name(node: node_def_pb2.NodeDef) -> str:
    return f"{node.name} ({node.op})"
