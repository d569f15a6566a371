"""Pass: moves a negation from a large tensor to a scalar factor."""

from __future__ import annotations

from collections import Counter

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2

from tensorflow_ipu.compiler.ir import resource_uses
from tensorflow_ipu.compiler.ir.program import Program, input_node
from tensorflow_ipu.compiler.ir.target import Target

_FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
# Ops between the reading of a variable and the use of the number that is in it.
_PASSED = ("Cast", "IpuHalfToFloat", "Identity")

# Nodes by their identity. They are kept, as an identity means nothing once its object is gone.
_Nodes = dict[int, node_def_pb2.NodeDef]


def run(program: Program, target: Target) -> None:
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
    for resource, node in resource_uses.find(program):
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
