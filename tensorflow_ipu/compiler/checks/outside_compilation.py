"""Checks of the ops that run on the host in the middle of a program."""

from __future__ import annotations

import collections

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import errors, function_def_to_graph

from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    Program,
    at_node,
    host_functions,
    input_node,
    node_tag,
)
from tensorflow_ipu.compiler.ir.target import Target


def check(program: Program, target: Target) -> None:
    """Checks every outside-compilation scope of a Program.

    Raises:
        tf.errors.InvalidArgumentError: If a scope exchanges no tensor with the device, or gives it
            one of unknown shape.
    """
    del target
    inside = host_functions(program)
    for name, function in program.functions.items():
        if name in inside:
            continue  # on the host as a whole
        scopes: dict[bytes, list[node_def_pb2.NodeDef]] = collections.defaultdict(list)
        for node in function.node_def:
            if OUTSIDE_ATTRIBUTE in node.attr:
                scopes[node.attr[OUTSIDE_ATTRIBUTE].s].append(node)
        for scope, nodes in scopes.items():
            _check_scope(function, scope.decode(), nodes)


def _check_scope(
    function: function_pb2.FunctionDef, scope: str, nodes: list[node_def_pb2.NodeDef]
) -> None:
    inside = {node.name for node in nodes}
    has_input = any(input_node(name) not in inside for node in nodes for name in node.input)
    outputs = {
        name
        for user in function.node_def
        if user.name not in inside
        for name in user.input
        if input_node(name) in inside
    }
    outputs.update(name for name in function.ret.values() if input_node(name) in inside)
    if not has_input and not outputs:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The outside compilation scope '{scope}' must have either input or output: pass it a "
            "tensor of the IPU program, or use one of its tensors there."
            f"{at_node(nodes[0].name, function.signature.name)}",
        )
    tensors = {name for name in outputs if not name.startswith("^")}
    if tensors:
        _check_shapes(function, scope, tensors)


def _check_shapes(function: function_pb2.FunctionDef, scope: str, outputs: set[str]) -> None:
    graph = function_def_to_graph.function_def_to_graph(function)
    for name in sorted(outputs):
        node, _, index = name.partition(":")
        tensor = graph.get_operation_by_name(node).outputs[int(index.rpartition(":")[2] or 0)]
        if not tensor.shape.is_fully_defined():
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The shape of every output of the outside compilation scope '{scope}' must be "
                f"statically known. The shape of {node_tag(node, function.signature.name)} is "
                f"{tensor.shape}: set it with set_shape() inside the scope.",
            )
