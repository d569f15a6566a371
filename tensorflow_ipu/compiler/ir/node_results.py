"""Names and types of the results of nodes, as in functions: `node:output:0`."""

from __future__ import annotations

import functools

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors, op_def_registry

from tensorflow_ipu.compiler.ir.program import node_tag


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
