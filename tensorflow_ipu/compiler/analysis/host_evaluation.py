"""Programs that need no device because the host can evaluate them."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names

_ELEMENTWISE = frozenset(
    {"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "Neg", "Abs", "Square",
     "Sqrt", "Rsqrt", "Exp", "Log", "Tanh", "Pow", "Greater", "GreaterEqual", "Less", "LessEqual",
     "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "LogicalNot", "Cast", "FloorDiv", "FloorMod"}
)  # fmt: skip
_PASSING = frozenset({"Identity", "IdentityN", "NoOp", "Const"})


def is_host_evaluated(program: Program, target: Target) -> bool:
    """Returns whether the host evaluates a Program without the device.

    So it does where the results are constants or inputs, and where all work is elementwise on
    scalars, variables included, as long as nothing has a side effect.
    """
    nodes = program.functions[program.entry].node_def
    if not any(argument.is_variable for argument in target.arguments):
        if all(node.op in _PASSING for node in nodes) or _is_constant(nodes):
            return True
    return all(node.op in _PASSING | _ELEMENTWISE | {op_names.READ} for node in nodes) and (
        all(argument.shape.rank == 0 for argument in target.arguments)
        and all(_is_scalar(node) for node in nodes if node.op == "Const")
    )


def is_constant(library: function_pb2.FunctionDefLibrary, entry: str) -> bool:
    """Returns whether a host-evaluated program returns only constants and its inputs.

    Args:
        library: its functions.
        entry: name of the function to run.
    """
    (nodes,) = (
        list(function.node_def) for function in library.function if function.signature.name == entry
    )
    return all(node.op in _PASSING for node in nodes) or _is_constant(nodes)


def _is_scalar(node: node_def_pb2.NodeDef) -> bool:
    return not node.attr["value"].tensor.tensor_shape.dim


def _is_constant(nodes: list[node_def_pb2.NodeDef]) -> bool:
    """Returns whether everything follows from constants, by ops without side effects."""
    has_argument = False
    names = {node.name for node in nodes}
    for node in nodes:
        definition = op_def_registry.get(node.op)
        if definition is None or definition.is_stateful or op_names.is_own(node.op):
            return False
        has_argument |= any(name.lstrip("^").split(":")[0] not in names for name in node.input)
    return not has_argument
