"""Pass: removes casts to a wider type and straight back."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2

from tensorflow_ipu.compiler.ir.program import Program, input_node
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


def run(program: Program, target: Target) -> None:
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
