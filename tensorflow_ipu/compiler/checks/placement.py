"""Checks of the place of ops: IPUs that feeds and collectives need, and the host."""

from __future__ import annotations

import collections
from collections.abc import Mapping

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import errors, function_def_to_graph

from tensorflow_ipu.compiler.ir import function_nodes
from tensorflow_ipu.compiler.ir.function_nodes import ALL_IPUS, node_ipus
from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    SHARD_INPUT_ATTRIBUTE,
    Program,
    at_node,
    host_functions,
    input_node,
    node_tag,
)
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names


def check_collective_inputs(program: Program, target: Target) -> None:
    """Checks that input i of each collective within a replica is on shard i.

    Values from outside the function (arguments, variables of loops) pass unchecked. An op that
    names no shard has the shards of its inputs.

    Args:
        program: the Program with the user's shards, before the pass `place_ops`.
        target: the compilation target.

    Raises:
        tf.errors.FailedPreconditionError: an input is on another shard, or names none.
    """
    del target
    for function in program.functions.values():
        inputs = [node for node in function.node_def if SHARD_INPUT_ATTRIBUTE in node.attr]
        if inputs:
            nodes = {node.name: node for node in function.node_def}
            for node in inputs:
                source = nodes.get(input_node(node.input[0]))
                if source is not None:
                    _check_input(function, node, source, _shards(source, nodes))


def _shards(source: node_def_pb2.NodeDef, nodes: Mapping[str, node_def_pb2.NodeDef]) -> set[int]:
    """Returns the shards of a node, or else of its nearest predecessors that have any."""
    found: set[int] = set()
    seen = {source.name}
    following = [source]
    while following:
        node = following.pop()
        ipus = node_ipus(node)
        found.update(ipus)
        if ipus:
            continue
        names = {input_node(one) for one in node.input if not one.startswith("^")} - seen
        seen |= names
        following += [nodes[name] for name in names if name in nodes]
    return found


def _check_input(
    function: function_pb2.FunctionDef,
    node: node_def_pb2.NodeDef,
    source: node_def_pb2.NodeDef,
    ipus: set[int],
) -> None:
    index = node.attr[SHARD_INPUT_ATTRIBUTE].i
    if index in ipus or ALL_IPUS in ipus:
        return
    if ipus:
        problem = (
            "The inputs of a collective within a replica must be provided in incrementing shard "
            f"order: input {index} is on shard {', '.join(map(str, sorted(ipus)))}"
        )
    else:
        problem = (
            f"Missing shard information for input {index} of a collective within a replica, which "
            "takes one from each shard in turn"
        )
    place = at_node(source.name, function.signature.name)
    advice = f"{problem}. Make it in `with ipu.scopes.ipu_shard({index}):`.{place}"
    raise errors.FailedPreconditionError(None, None, advice)


# --- Feeds ---


def check_feeds(program: Program, target: Target) -> None:
    """Checks that no feed is used on two IPUs.

    Raises:
        tf.errors.FailedPreconditionError: Naming the ops.
    """
    del target
    users: dict[bytes, tuple[tuple[int, ...], str]] = {}
    for function, node in program.nodes():
        if node.op not in op_names.FEEDS:
            continue
        ipus = function_nodes.node_ipus(node)
        name = node_tag(node.name, function.signature.name)
        first_ipus, first = users.setdefault(node.attr["feed_id"].s, (ipus, name))
        if ipus != first_ipus:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"Trying to use the same feed on two IPUs: {first} on {list(first_ipus)} and "
                f"{name} on {list(ipus)}. Make one queue for each.",
            )


def check_outside_compilation(program: Program, target: Target) -> None:
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
