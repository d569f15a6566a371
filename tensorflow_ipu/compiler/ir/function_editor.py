"""Editor that adds nodes to a function, keeping both forms of its float16 tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.ir.program import input_node

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
