"""Passes that simplify: casts there and back, gates of gradients, negations of large tensors."""

from __future__ import annotations

import re
from collections import Counter

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2

from tensorflow_ipu.compiler.ir import dataflow
from tensorflow_ipu.compiler.ir.program import (
    ACCUMULATION_ATTRIBUTE,
    PIPELINE_ATTRIBUTE,
    Program,
    input_node,
)
from tensorflow_ipu.compiler.ir.target import Target

# The types whose values float64 all has.
_IN_DOUBLE = frozenset(
    {
        types_pb2.DT_HALF,
        types_pb2.DT_BFLOAT16,
        types_pb2.DT_FLOAT,
        types_pb2.DT_INT8,
        types_pb2.DT_UINT8,
        types_pb2.DT_INT16,
        types_pb2.DT_UINT16,
        types_pb2.DT_INT32,
        types_pb2.DT_UINT32,
    }
)


def remove_round_trips(program: Program, target: Target) -> None:
    """Replaces a cast to float64 and back by an identity.

    Keras makes such pairs: a model that was built for float64 casts its inputs to that, and its
    layers cast them to the type that they compute in.

    Before: any legal Program. After: an equivalent Program; the casts to float64 are left for
    pruning.
    """
    del target
    for function in program.functions.values():
        _remove(function)


def _remove(function: function_pb2.FunctionDef) -> None:
    nodes = {node.name: node for node in function.node_def}
    removed = set()
    for node in function.node_def:
        if not _is_cast(node):
            continue
        wide = nodes.get(input_node(node.input[0]))
        if wide is None or not _is_cast(wide) or wide.attr["DstT"].type != types_pb2.DT_DOUBLE:
            continue
        kind = wide.attr["SrcT"].type
        if kind == node.attr["DstT"].type and kind in _IN_DOUBLE:
            _make_identity(node, wide, kind)
            removed.add(node.name)
    if removed:
        _rename_results(function, removed)


def _is_cast(node: node_def_pb2.NodeDef) -> bool:
    return node.op == "Cast"


def _make_identity(node: node_def_pb2.NodeDef, wide: node_def_pb2.NodeDef, kind: int) -> None:
    """Turns a cast back into an identity of the first cast's operand."""
    node.op = "Identity"
    node.input[0] = wide.input[0]
    for name in ("SrcT", "DstT", "Truncate"):
        node.attr.pop(name, None)
    node.attr["T"].type = kind


def _rename_results(function: function_pb2.FunctionDef, removed: set[str]) -> None:
    """Renames references to a cast's result `y` to the result `output` of `Identity`."""

    def renamed(reference: str) -> str:
        name = input_node(reference)
        return f"{name}:output:0" if reference == f"{name}:y:0" and name in removed else reference

    for node in function.node_def:
        node.input[:] = [renamed(reference) for reference in node.input]
    for key, reference in function.ret.items():
        function.ret[key] = renamed(reference)


# TensorFlow's names of the ops that hold the gradients of an op together.
_GATED = re.compile(r"_grad/tuple/control_dependency(_\d+)?$")
_GATE = re.compile(r"_grad/tuple/group_deps(_\d+)?$")


def ungate_gradients(program: Program, target: Target) -> None:
    """Removes the gates of gradients where gradients are accumulated.

    Optimizers of TensorFlow 1 make every gradient of an op wait for its other gradients, so that a
    variable is not updated while one of them still has to read it. Accumulated gradients do not
    need that: the update waits for all of them, and where gates stay the two gradients of a
    convolution cannot run side by side.

    Before: any legal Program. After: functions that accumulate have no such gates; the ops they
    were made of are left for pruning.
    """
    del target
    for function in program.functions.values():
        if _accumulates(function):
            _ungate(function)


def _accumulates(function: function_pb2.FunctionDef) -> bool:
    marks = (PIPELINE_ATTRIBUTE, ACCUMULATION_ATTRIBUTE)
    return any(mark in node.attr for node in function.node_def for mark in marks)


def _ungate(function: function_pb2.FunctionDef) -> None:
    for node in function.node_def:
        if node.op == "Identity" and _GATED.search(node.name):
            kept = [
                name
                for name in node.input
                if not (name.startswith("^") and _GATE.search(input_node(name)))
            ]
            node.ClearField("input")
            node.input.extend(kept)


_FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
# Ops between the reading of a variable and the use of the number that is in it.
_PASSED = ("Cast", "IpuHalfToFloat", "Identity")
# Nodes by their identity. They are kept, as an identity means nothing once its object is gone.
_Nodes = dict[int, node_def_pb2.NodeDef]


def move_negations(program: Program, target: Target) -> None:
    """Rewrites `(-x) * number` to `x * (-number)`, if the number is the value of a variable.

    Keras's gradient descent negates each gradient, and then multiplies it by the learning rate.
    This saves one pass through memory for each weight. A product has the same bits either way.

    Before: any legal Program. After: an equivalent Program.
    """
    reads = _reads_of_numbers(program, target)
    for function in program.functions.values():
        _Function(function, reads).rewrite()


def _reads_of_numbers(program: Program, target: Target) -> _Nodes:
    """Returns the ops that read variables with one number."""
    reads: _Nodes = {}
    others: _Nodes = {}
    for resource, node in dataflow.resource_uses(program):
        if node.op == "ReadVariableOp":
            kind, index, *_ = resource
            is_number = kind == "argument" and target.arguments[int(str(index))].shape.rank == 0
            (reads if is_number else others)[id(node)] = node
    return {identity: node for identity, node in reads.items() if identity not in others}


class _Function:
    """A function that is being rewritten.

    Args:
        function: the function, changed in place.
        reads: the ops that read variables with one number.
    """

    def __init__(self, function: function_pb2.FunctionDef, reads: _Nodes) -> None:
        self._nodes = {node.name: node for node in function.node_def}
        self._reads = reads
        references = [*function.ret.values(), *function.control_ret.values()]
        for node in function.node_def:
            references.extend(node.input)
        self._users = Counter(input_node(reference) for reference in references)

    def rewrite(self) -> None:
        """Rewrites all products that can be."""
        for node in self._nodes.values():
            if node.op == "Mul" and node.attr["T"].type in _FLOATS:
                if not self._move_negation(node, 0, 1):
                    self._move_negation(node, 1, 0)

    def _move_negation(self, product: node_def_pb2.NodeDef, source: int, to: int) -> bool:
        """Moves the negation of one factor to the other; returns whether it does."""
        negated, number = product.input[source], product.input[to]
        negation = self._nodes.get(input_node(negated))
        if negation is None or negation.op != "Neg" or self._users[negation.name] > 1:
            return False
        if not self._is_number(number):
            return False
        product.input[source] = negation.input[0]
        product.input[to] = negated
        negation.input[0] = number
        # The shape before.
        negation.attr.pop("_output_shapes", None)
        return True

    def _is_number(self, reference: str) -> bool:
        """Returns whether a tensor is the value of a variable with one element."""
        node = self._nodes.get(input_node(reference))
        # Nothing may be before the reading that needs the negation.
        if node is None or len(node.input) != 1:
            return False
        if node.op in _PASSED:
            return self._is_number(node.input[0])
        return id(node) in self._reads
