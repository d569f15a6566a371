"""Text of a node on one line: name, op type, inputs and important attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2, node_def_pb2, op_def_pb2, tensor_pb2
from tensorflow.python.framework import dtypes, op_def_registry, tensor_shape, tensor_util

# Makes text of the bytes of an attribute; none where there is nothing to show.
Decoder = Callable[[bytes], str]

# Prefixes of attributes with an underscore that are shown: this package's, and of placement.
_PREFIXES_SHOWN = ("_ipu_", "_xla_", "_class")
# Shapes of results follow from the shapes of inputs.
_HIDDEN = "output_shapes"
# Constants with more elements are shown by type and shape.
_MOST_ELEMENTS = 8


def node_line(
    node: node_def_pb2.NodeDef, functions: Mapping[str, str], decoders: Mapping[str, Decoder]
) -> str:
    """Returns a node as `name = Op(input, ^control) {attribute=value}`.

    Shown are the attributes that follow neither from the inputs nor from the defaults of the op,
    but of those with an underscore only the ones of this package and of placement.

    Args:
        node: the node.
        functions: names to show instead of the names of functions, which differ in each trace.
        decoders: functions from serialized messages to text, by attribute.
    """
    shown = [f"device={node.device}"] if node.device else []
    shown += [decode(node.attr[key].s) for key, decode in decoders.items() if key in node.attr]
    shown += [f"{key}={value_text(node.attr[key], functions)}" for key in _shown(node)]
    shown = [text for text in shown if text]
    attributes = f" {{{', '.join(shown)}}}" if shown else ""
    return f"{node.name} = {node.op}({', '.join(node.input)}){attributes}"


def ipus_text(sharding: bytes) -> str:
    """Returns a sharding as `ipus=0+2`."""
    devices = xla_data_pb2.OpSharding.FromString(sharding).tile_assignment_devices
    return f"ipus={'+'.join(map(str, devices))}"


def frontend_text(attributes: bytes) -> str:
    """Returns frontend attributes as `KEY=value`, without those that are explicitly undefined."""
    values = xla_data_pb2.FrontendAttributes.FromString(attributes).map
    shown = {k: v for k, v in sorted(values.items()) if not v.endswith(("_UNDEFINED", "_INVALID"))}
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def type_text(dtype: int, shape: Any = None) -> str:
    """Returns a type, with its shape where that is known, as `float32[2, 3]`."""
    return dtypes.as_dtype(dtype).name + ("" if shape is None else _shape_text(shape))


def value_text(value: attr_value_pb2.AttrValue, functions: Mapping[str, str]) -> str:
    """Returns the value of an attribute in Python's notation.

    Args:
        value: the value.
        functions: names to show instead of the names of functions.
    """
    kind = value.WhichOneof("value")
    if kind == "list":
        members = [
            _member_text(field.name, member, functions)
            for field, repeated in value.list.ListFields()
            for member in repeated
        ]
        return f"[{', '.join(members)}]"
    return _member_text(kind, getattr(value, kind), functions) if kind else "None"


def _shown(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the attributes that are shown, sorted: their order in the node is not fixed."""
    definition = op_def_registry.get(node.op)
    implied = _implied(definition) if definition else {_HIDDEN}
    defaults = {a.name: a.default_value for a in definition.attr} if definition else {}
    return [
        key
        for key in sorted(node.attr)
        if key.startswith(_PREFIXES_SHOWN)
        or not (key.startswith("_") or key in implied or node.attr[key] == defaults.get(key))
    ]


def _implied(definition: op_def_pb2.OpDef) -> set[str]:
    """Returns the attributes of an op that its inputs determine."""
    found = {_HIDDEN}
    for argument in definition.input_arg:
        found |= {argument.type_attr, argument.number_attr, argument.type_list_attr}
    return found


def _member_text(kind: str, value: Any, functions: Mapping[str, str]) -> str:
    """Returns a value that is no list, of one of the kinds that `AttrValue` has."""
    if kind == "type":
        return type_text(value)
    if kind == "shape":
        return _shape_text(value)
    if kind == "tensor":
        return _tensor_text(value)
    if kind == "func":
        return functions.get(value.name, value.name)
    if kind == "s":
        return value.decode(errors="backslashreplace")
    return str(value)


def _shape_text(shape: Any) -> str:
    """Returns a shape as `[2, None]`, or `[...]` if not even its rank is known."""
    dimensions = tensor_shape.TensorShape(shape)
    return "[...]" if dimensions.rank is None else str(dimensions.as_list())


def _tensor_text(tensor: tensor_pb2.TensorProto) -> str:
    """Returns the elements of a small tensor, the type and shape of a large one."""
    shape = tensor_shape.TensorShape(tensor.tensor_shape)
    if shape.num_elements() > _MOST_ELEMENTS:
        return type_text(tensor.dtype, shape)
    return str(tensor_util.MakeNdarray(tensor).tolist())
