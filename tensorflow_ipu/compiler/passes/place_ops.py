"""Passes that place ops: on the host's devices, and on the IPUs of a sharded program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2

from tensorflow_ipu.compiler.ir import dataflow, function_nodes
from tensorflow_ipu.compiler.ir.function_nodes import node_ipus
from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
    Program,
    called_functions,
    input_node,
)
from tensorflow_ipu.compiler.ir.target import Target

_COLOCATION = "_class"


def clear_devices(program: Program, target: Target) -> None:
    """Clears device and colocation requests.

    Before: any legal Program. After: no node asks for a device. Which IPU an op belongs to stays
    in its sharding attribute.
    """
    del target
    for _, node in program.nodes():
        node.ClearField("device")
        if _COLOCATION in node.attr:
            del node.attr[_COLOCATION]


_Nodes = dict[str, node_def_pb2.NodeDef]


def place(program: Program, target: Target) -> None:
    """Places ops without a shard beside the ops that they work with.

    An op that is on all IPUs gets the indices of the IPUs that the program uses.

    Users name the IPUs of their model's ops, but not of sums of gradients, updates of variables and
    constants. An op that names no IPU takes the IPU of, in this order,

    1. the first op that names one and uses the same variable or feed, in any function;
    2. the first op among the producers of its inputs;
    3. the first op among the users of its results.

    An op that runs functions with placed ops in them is on several IPUs, so it takes none and gives
    none. The remaining ops are on the IPU of the op that runs their function, 0 at the top.

    Before: any legal Program. After: the same with more sharding attributes; no op moved, and a
    Program without any is as it was.
    """
    del target
    if not any(node_ipus(node) for _, node in program.nodes()):
        return
    _name_all_ipus(program)
    uses = dataflow.resource_uses(program)
    _place_by_resource(uses)
    feeds = [use for use in uses if use.resource[0] == "feed" and _is_free(use.node)]
    spread = _spread(program)
    for name, function in program.functions.items():
        if name in spread:
            _place_by_neighbors(function, spread)
    _unite(feeds)


def _name_all_ipus(program: Program) -> None:
    """Replaces "all IPUs" of ops by the indices of the IPUs."""
    everywhere = function_nodes.sharding_attribute(list(range(function_nodes.ipus_used(program))))
    for _, node in program.nodes():
        if node_ipus(node) == (function_nodes.ALL_IPUS,):
            node.attr[SHARDING_ATTRIBUTE].CopyFrom(everywhere)


def _place_by_resource(uses: Sequence[dataflow.ResourceUse]) -> None:
    """Places ops by the variables and feeds that they use: rule 1."""
    homes: dict[dataflow.Resource, attr_value_pb2.AttrValue] = {}
    for use in uses:
        if node_ipus(use.node):
            homes.setdefault(use.resource, use.node.attr[SHARDING_ATTRIBUTE])
    for use in uses:
        if use.resource in homes and _is_free(use.node):
            use.node.attr[SHARDING_ATTRIBUTE].CopyFrom(homes[use.resource])


def _unite(feeds: Sequence[dataflow.ResourceUse]) -> None:
    """Moves the ops of each feed to the first of their IPUs."""
    homes: dict[dataflow.Resource, attr_value_pb2.AttrValue] = {}
    for use in feeds:
        if node_ipus(use.node):
            homes.setdefault(use.resource, use.node.attr[SHARDING_ATTRIBUTE])
    for use in feeds:
        if use.resource in homes:
            use.node.attr[SHARDING_ATTRIBUTE].s = homes[use.resource].s


def _spread(program: Program) -> set[str]:
    """Returns the functions that have placed ops in them or in functions that they run."""
    spread = {function.signature.name for function, node in program.nodes() if node_ipus(node)}
    grown = True
    while grown:
        callers = {
            function.signature.name
            for function, node in program.nodes()
            if not spread.isdisjoint(called_functions(node))
        }
        grown = not callers <= spread
        spread |= callers
    return spread


def _place_by_neighbors(function: function_pb2.FunctionDef, spread: set[str]) -> None:
    """Places the ops of one function by producers and users: rules 2 and 3."""
    ordered = function_nodes.topological(function.node_def)
    nodes = {node.name: node for node in ordered}
    users: dict[str, list[str]] = {name: [] for name in nodes}
    for node in ordered:
        for name in _inputs(node):
            if name in nodes:
                users[name].append(node.name)
    ordinary = [node for node in ordered if spread.isdisjoint(called_functions(node))]
    giving = {node.name: node for node in ordinary}
    _sweep(ordinary, _inputs, giving)
    _sweep(ordinary[::-1], lambda node: users[node.name], giving)
    # Constants were placed just now, but not ops on constants alone.
    _sweep(ordinary, _inputs, giving)


def _sweep(
    nodes: Iterable[node_def_pb2.NodeDef],
    neighbors: Callable[[node_def_pb2.NodeDef], list[str]],
    giving: _Nodes,
) -> None:
    """Places nodes one after the other, each where its first placed neighbour is."""
    for node in nodes:
        if not _is_free(node):
            continue
        placed = (giving[name] for name in neighbors(node) if name in giving)
        source = next((other for other in placed if node_ipus(other)), None)
        if source is not None:
            node.attr[SHARDING_ATTRIBUTE].CopyFrom(source.attr[SHARDING_ATTRIBUTE])


def _is_free(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether an op names no IPU and is not on the host."""
    return not node_ipus(node) and OUTSIDE_ATTRIBUTE not in node.attr


def _inputs(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the names of the nodes (and arguments) that make the data inputs of a node."""
    return [input_node(name) for name in node.input if not name.startswith("^")]
