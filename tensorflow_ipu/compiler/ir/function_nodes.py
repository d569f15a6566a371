"""Nodes of a function: their order, results and IPUs, and an editor that adds nodes."""

from __future__ import annotations

import functools
import heapq
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2, types_pb2
from tensorflow.python.framework import errors, op_def_registry

from tensorflow_ipu.compiler.ir.program import (
    PIPELINE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
    Program,
    input_node,
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
    pipelines. A replica occupies that many rounded up to a power of two (`runtime.system`).
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


# --- Editor of a function, which keeps both forms of its float16 tensors ---

_Finish = Callable[[str], str]

# Casts of our own, by types: TensorFlow's kernel takes five times as long.
_CASTS = {
    (types_pb2.DT_HALF, types_pb2.DT_FLOAT): "IpuHalfToFloat",
    (types_pb2.DT_FLOAT, types_pb2.DT_HALF): "IpuFloatToHalf",
}


class FunctionEditor:
    """A function that is being rewritten, node after node in topological order.

    The result of a rewritten node is announced under its old name, with a function that adds its
        final value. The function is called for the first user, so no nodes are added without a
        user. A user asks for a float16 tensor as it is, or wide: the same values in float32.

    Args:
        function: the function, changed in place.
    """

    def __init__(self, function: function_pb2.FunctionDef) -> None:
        self.function = function
        self._names = {node.name for node in function.node_def}
        self._names.update(argument.name for argument in function.signature.input_arg)
        # Announced tensors: how to finish them, whether they are wide now, and their final name.
        self._pending: dict[str, tuple[_Finish, bool]] = {}
        self._finished: dict[str, str] = {}
        self._narrow: dict[str, str] = {}
        self._wide: dict[str, str] = {}

    def add(
        self, name: str, op: str, inputs: Iterable[str], **attributes: Any
    ) -> node_def_pb2.NodeDef:
        """Adds a node.

        Args:
            name: its name, made unique.
            op: its type.
            inputs: its inputs.
            **attributes: types by number, lists of types, bool, int and str.
        """
        unique, number = name, 0
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        node = self.function.node_def.add(name=unique, op=op, input=inputs)
        kinds = {attribute.name: attribute.type for attribute in op_def_registry.get(op).attr}
        for key, value in attributes.items():
            _set(node, key, kinds[key], value)
        return node

    def announce(self, reference: str, finish: _Finish, wide: bool) -> None:
        """Records that a tensor has been replaced.

        Args:
            reference: its name.
            finish: given that name, returns the name of the tensor with the final value.
            wide: whether the final value is the wide form of a float16 tensor.
        """
        self._pending[reference] = (finish, wide)

    def is_wide(self, reference: str) -> bool:
        """Returns whether a float16 tensor already has a wide form."""
        return reference in self._pending and self._pending[reference][1]

    def value(self, reference: str) -> str:
        """Returns the name under which a tensor is used now, in its own type."""
        if reference not in self._pending:
            return reference
        final = self._final(reference)
        if not self._pending[reference][1]:
            return final
        if reference not in self._narrow:
            self._narrow[reference] = self.cast(
                final, types_pb2.DT_FLOAT, types_pb2.DT_HALF, f"{input_node(reference)}/half"
            )
        return self._narrow[reference]

    def wide(self, reference: str) -> str:
        """Returns the name of the wide form of a float16 tensor."""
        if self.is_wide(reference):
            return self._final(reference)
        if reference not in self._wide:
            self._wide[reference] = self.cast(
                self.value(reference),
                types_pb2.DT_HALF,
                types_pb2.DT_FLOAT,
                f"{input_node(reference)}/float",
            )
        return self._wide[reference]

    def cast(self, reference: str, source: int, destination: int, name: str) -> str:
        """Adds a cast between types, and returns its result."""
        own = _CASTS.get((source, destination))
        if own is not None:
            return f"{self.add(name, own, [reference]).name}:output:0"
        node = self.add(name, "Cast", [reference], SrcT=source, DstT=destination)
        return f"{node.name}:y:0"

    def take_wide_arguments(self) -> None:
        """Makes the function take the wide forms of its float16 arguments."""
        for argument in self.function.signature.input_arg:
            if argument.type == types_pb2.DT_HALF:
                argument.type = types_pb2.DT_FLOAT
                self.announce(argument.name, lambda name: name, wide=True)

    def use_final_results(self, wide: bool = False) -> None:
        """Makes the function return the final values.

        Args:
            wide: whether it returns the wide forms of float16 tensors.
        """
        for result in self.function.signature.output_arg:
            reference = self.function.ret[result.name]
            if wide and result.type == types_pb2.DT_HALF:
                result.type = types_pb2.DT_FLOAT
                self.function.ret[result.name] = self.wide(reference)
            else:
                self.function.ret[result.name] = self.value(reference)

    def _final(self, reference: str) -> str:
        if reference not in self._finished:
            self._finished[reference] = self._pending[reference][0](reference)
        return self._finished[reference]


def data_inputs(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the inputs of a node but for control inputs."""
    return [reference for reference in node.input if not reference.startswith("^")]


def control_inputs(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the control inputs of a node."""
    return [reference for reference in node.input if reference.startswith("^")]


def replace_data_inputs(node: node_def_pb2.NodeDef, data: Sequence[str]) -> None:
    """Replaces the data inputs of a node, and keeps its control inputs."""
    inputs = [*data, *control_inputs(node)]
    del node.input[:]
    node.input.extend(inputs)


def _set(node: node_def_pb2.NodeDef, key: str, kind: str, value: Any) -> None:
    """Sets an attribute, given its kind in the op's definition."""
    if kind == "type":
        node.attr[key].type = value
    elif kind == "list(type)":
        node.attr[key].list.type.extend(value)
        node.attr[key].list.SetInParent()
    elif kind == "bool":
        node.attr[key].b = value
    elif kind == "int":
        node.attr[key].i = value
    elif kind == "string":
        node.attr[key].s = value.encode()
    else:
        node.attr[key].shape.CopyFrom(value)
