"""Nodes of a function: their order, results and IPUs."""

from __future__ import annotations

import functools
import heapq
import json
from typing import TYPE_CHECKING

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2, node_def_pb2
from tensorflow.python.framework import errors, op_def_registry

from tensorflow_ipu.compiler.ir.program import (
    PIPELINE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
    Program,
    node_tag,
)
from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    from collections.abc import Sequence


def topological(nodes: Sequence[node_def_pb2.NodeDef]) -> tuple[node_def_pb2.NodeDef, ...]:
    """Orders nodes so that each follows its inputs; ties are settled by original position.

    Args:
        nodes: the nodes of a function; inputs that are not among them are taken as given.

    Returns:
        The same nodes in order.

    Raises:
        ValueError: some nodes wait for each other.
    """
    sources = _sources(nodes)
    waiting = [len(found) for found in sources]
    users: list[list[int]] = [[] for _ in nodes]
    for index, found in enumerate(sources):
        for source in found:
            users[source].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    ordered = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(nodes[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(ordered) != len(nodes):
        stuck = [node.name for node, count in zip(nodes, waiting) if count]
        raise ValueError(
            "Expected a function without cycles, received one in which these ops wait for each "
            f"other: {stuck[:5]}. Only `NextIteration` may close a loop."
        )
    return tuple(ordered)


def _sources(nodes: Sequence[node_def_pb2.NodeDef]) -> list[list[int]]:
    """Returns the positions of each node's predecessors.

    The back edge of a v1 loop is left out: its `Merge` runs for the first time without it.
    """
    position = {
        node.name: index
        for index, node in enumerate(nodes)
        if node.op not in op_names.NEXT_ITERATIONS
    }
    return [
        [
            position[name]
            for name in {i.lstrip("^").split(":")[0] for i in node.input}
            if name in position
        ]
        for node in nodes
    ]


# --- Names and types of the results of nodes, as in functions: `node:output:0` ---


def results_of(node: node_def_pb2.NodeDef) -> list[tuple[str, list[int]]]:
    """Returns the name of each result of a node's op with its types; several for a list."""
    definition = op_def_registry.get(node.op)
    if definition is None:
        raise errors.UnimplementedError(
            None, None, f"{node_tag(node.name)} ({node.op}) is not an op that the host can run."
        )
    results = []
    for argument in definition.output_arg:
        if argument.type_list_attr:
            types = list(node.attr[argument.type_list_attr].list.type)
        else:
            kind = argument.type or node.attr[argument.type_attr].type
            types = [kind] * (node.attr[argument.number_attr].i if argument.number_attr else 1)
        results.append((argument.name, types))
    return results


def result_names(node: node_def_pb2.NodeDef) -> tuple[str, ...]:
    """Returns the name of each result of a node: `node:result:index`."""
    names = []
    for result, types, number in _counts(node.op):
        count = len(node.attr[types].list.type) if types else node.attr[number].i if number else 1
        names += [f"{node.name}:{result}:{index}" for index in range(count)]
    return tuple(names)


def position_of(node: node_def_pb2.NodeDef, reference: str) -> int:
    """Returns the position of `node:result:index` among all results of the node."""
    _, result, index = reference.split(":")
    position = 0
    for name, types in results_of(node):
        if name == result:
            return position + int(index)
        position += len(types)
    raise errors.InternalError(None, None, f"{node.name} ({node.op}) has no result {result}.")


def type_of(node: node_def_pb2.NodeDef, reference: str) -> int:
    """Returns the type of the result `node:result:index` of a node."""
    types = [kind for _, kinds in results_of(node) for kind in kinds]
    return types[position_of(node, reference)]


def input_types(node: node_def_pb2.NodeDef) -> list[int]:
    """Returns the type of each data input of a node's op.

    Raises:
        tf.errors.UnimplementedError: If it is not an op that the host can run.
    """
    definition = op_def_registry.get(node.op)
    if definition is None:
        raise errors.UnimplementedError(
            None, None, f"{node_tag(node.name)} ({node.op}) is not an op that the host can run."
        )
    types: list[int] = []
    for argument in definition.input_arg:
        if argument.type_list_attr:
            types += list(node.attr[argument.type_list_attr].list.type)
        else:
            kind = argument.type or node.attr[argument.type_attr].type
            types += [kind] * (node.attr[argument.number_attr].i if argument.number_attr else 1)
    return types


@functools.cache
def _counts(op_type: str) -> list[tuple[str, str, str]]:
    """Returns the results of an op, with the attributes of their types and their number."""
    definition = op_def_registry.get(op_type)
    if definition is None:
        raise errors.UnimplementedError(
            None, None, f"{op_type} is not an op that the host can run."
        )
    return [
        (argument.name, argument.type_list_attr, argument.number_attr)
        for argument in definition.output_arg
    ]


# --- The sharding attribute of nodes: the IPUs of the device that a node is on ---

#: The index that stands for all IPUs that a program uses, until it is compiled.
ALL_IPUS = -1


def sharding_attribute(ipus: list[int]) -> attr_value_pb2.AttrValue:
    """Returns the attribute value that places an op on `ipus`."""
    sharding = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.MAXIMAL,
        tile_assignment_dimensions=[len(ipus)],
        tile_assignment_devices=ipus,
    )
    return attr_value_pb2.AttrValue(s=sharding.SerializeToString())


def node_ipus(node: node_def_pb2.NodeDef) -> tuple[int, ...]:
    """Returns the IPUs that a node asks for: none, some, or `ALL_IPUS`."""
    if SHARDING_ATTRIBUTE not in node.attr:
        return ()
    sharding = xla_data_pb2.OpSharding.FromString(node.attr[SHARDING_ATTRIBUTE].s)
    return tuple(sharding.tile_assignment_devices)


def ipus_used(program: Program) -> int:
    """Returns the number of IPUs that one replica of a Program needs.

    That is one more than the highest index among the shards of its ops and the devices of its
    pipelines. A replica occupies that many rounded up to a power of two (`device.system`).
    """
    highest = 0
    for _, node in program.nodes():
        highest = max(highest, *node_ipus(node), *_pipeline_ipus(node), 0)
    return 1 + highest


def _pipeline_ipus(node: node_def_pb2.NodeDef) -> list[int]:
    """Returns the IPUs of the pipeline that a node describes, none for any other node."""
    if PIPELINE_ATTRIBUTE not in node.attr:
        return []
    stages = json.loads(node.attr[PIPELINE_ATTRIBUTE].s).get("devices", ())
    return [
        ipu for stage in stages for ipu in (stage if isinstance(stage, (list, tuple)) else [stage])
    ]
