"""Attributes of nodes that costs depend on, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2, node_def_pb2

from tensorflow_ipu.compiler.ir.program import (
    COMPOSITE_ATTRIBUTE,
    FRONTEND_ATTRIBUTE,
    MULTI_CONV_ATTRIBUTE,
    OUTLINED_PREFIX,
    PLAN_ATTRIBUTE,
)
from tensorflow_ipu.configs import enums

# Position of the input that says which axes an op works on, counted from the end if negative.
# Other inputs that decide on the work are named likewise: sizes, paddings, numbers of results.
_AXES = {
    **dict.fromkeys(("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm"), 1),
    **dict.fromkeys(("ArgMax", "ArgMin", "ConcatV2", "ReverseV2", "Cumsum", "Cumprod"), -1),
    **dict.fromkeys(("Transpose", "ConjugateTranspose", "ExpandDims", "CumulativeLogsumexp"), 1),
    **dict.fromkeys(("Split", "Concat"), 0),
    **dict.fromkeys(("SplitV", "GatherV2"), 2),
}
_NAMED = {
    "begin": {"Slice": 1, "StridedSlice": 1, "StridedSliceGrad": 1},
    "end": {"StridedSlice": 2, "StridedSliceGrad": 2},
    "size": {"Slice": 2},
    "steps": {"StridedSlice": 3, "StridedSliceGrad": 3},
    "paddings": {"Pad": 1, "PadV2": 1, "MirrorPad": 1, "SpaceToBatchND": 2},
    "crops": {"BatchToSpaceND": 2},
    "multiples": {"Tile": 1},
    "k": {"TopKV2": 1, "TopK": 1, "InTopKV2": 2},
    "depth": {"OneHot": 1},
}
_INPUTS: dict[str, list[tuple[str, int]]] = {}
for _type, _position in _AXES.items():
    _INPUTS.setdefault(_type, []).append(("axes", _position))
for _name, _types in _NAMED.items():
    for _type, _position in _types.items():
        _INPUTS.setdefault(_type, []).append((_name, _position))


# Attributes that do not affect the work, or repeat the types of inputs and results.
_LEFT_OUT = frozenset(
    {
        *("output_shapes", "output_types", "parallel_iterations", "use_locking", "validate_shape"),
        *("incompatible_shape_error", "feed_id", "shapes", "shape_type", "element_dtype"),
        *("Tin", "Tout", "Tcond", "Tidx", "Tshape", "Tmultiples", "Tlabels", "Tpaddings", "Tdim"),
        *("Tperm", "Tindices", "Taxis", "Tparams", "Index", "index_type", "config_proto", "config"),
        *("executor_type", "container", "shared_name", "message", "allowed_devices", "debug_name"),
        *("out_type", "is_stateless", "resize_if_index_out_of_bounds"),
    }
)


def attributes(node: node_def_pb2.NodeDef) -> dict[str, Any]:
    """Returns the attributes of a node that are numbers, texts, booleans or lists of them.

    Types are their names, shapes are lists with -1 for unknown dimensions. Attributes whose names
    begin with `_` are left out, as are the values of constants. Added are `partials` (`float16` or
    `float32`) in a scope that sets the type of sums, `multi_conv`, the name of the group of
    convolutions that run in parallel, `outlined`, the name of the function that a call runs, if the
    program has it once, and the members of `PLAN_ATTRIBUTE`.
    """
    found = {}
    for name in sorted(node.attr):
        if not name.startswith("_") and name not in _LEFT_OUT:
            value = _plain(node.attr[name])
            if value is not None:
                found[name] = value
    called = node.attr["f"].func.name if "f" in node.attr else ""
    if called.startswith(OUTLINED_PREFIX):
        found["outlined"] = called.removeprefix(OUTLINED_PREFIX)
    return {**found, **_of_scopes(node)}


def _of_scopes(node: node_def_pb2.NodeDef) -> dict[str, Any]:
    """Returns the attributes that the scopes around an op set."""
    found = json.loads(node.attr[PLAN_ATTRIBUTE].s) if PLAN_ATTRIBUTE in node.attr else {}
    if COMPOSITE_ATTRIBUTE in node.attr:
        found.update(json.loads(node.attr[COMPOSITE_ATTRIBUTE].s).get("attributes", {}))
    if FRONTEND_ATTRIBUTE in node.attr:
        options = xla_data_pb2.FrontendAttributes.FromString(node.attr[FRONTEND_ATTRIBUTE].s).map
        chosen = enums.PARTIALS_OF_KEY.get(options.get(enums.PARTIALS_KEY, ""))
        if chosen is not None:
            found["partials"] = chosen
    if MULTI_CONV_ATTRIBUTE in node.attr:
        found["multi_conv"] = str(json.loads(node.attr[MULTI_CONV_ATTRIBUTE].s)["group"])
    return dict(found)


def constant_inputs(
    op_type: str, constants: Sequence[np.ndarray | None], rank: int | None
) -> Mapping[str, Any]:
    """Returns the values of constant inputs by name: `axes`, `begin`, `paddings`, `k` ...

    Args:
        op_type: type of the op.
        constants: value of each input, None where it is not a constant.
        rank: rank of the op's data input; axes from the end are counted from the start with it.
    """
    found = {}
    for name, position in _INPUTS.get(op_type, ()):
        if not -len(constants) <= position < len(constants):
            continue
        value = constants[position]
        if value is None:
            continue
        if name == "axes":
            found[name] = [
                int(a) + rank * bool(a < 0) if rank else int(a) for a in value.reshape(-1)
            ]
        else:
            found[name] = value.tolist()
    return found


def constant_of(node: node_def_pb2.NodeDef, largest: int) -> np.ndarray | None:
    """Returns the value of a `Const` of at most `largest` elements, None for a larger one."""
    tensor = node.attr["value"].tensor
    if math.prod(d.size for d in tensor.tensor_shape.dim) > largest:
        return None
    made: np.ndarray = tf.make_ndarray(tensor)
    return made


def is_uniform(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether all elements of a `Const` are equal, and there are several."""
    tensor = node.attr["value"].tensor
    count = math.prod(d.size for d in tensor.tensor_shape.dim)
    if count < 2:
        return False
    if not tensor.tensor_content:
        return sum(len(value) for field, value in tensor.ListFields() if _is_data(field)) <= 1
    item = len(tensor.tensor_content) // count
    content = tensor.tensor_content
    return content[item:] == content[:-item]


def _is_data(field: Any) -> bool:
    """Returns whether a field of a tensor holds its elements."""
    return bool(field.name.endswith("_val"))


def _plain(value: attr_value_pb2.AttrValue) -> Any:
    """Returns an attribute's value as plain data, None for functions, tensors and bytes."""
    kind = value.WhichOneof("value")
    if kind in ("i", "f", "b"):
        return getattr(value, kind)
    if kind == "s":
        return _text(value.s)
    if kind == "type":
        return _type_name(value.type)
    if kind == "shape":
        return _dimensions(value.shape)
    return _plain_list(value.list) if kind == "list" else None


def _plain_list(value: attr_value_pb2.AttrValue.ListValue) -> list[Any] | None:
    for name in ("i", "f", "b"):
        if getattr(value, name):
            return list(getattr(value, name))
    if value.type:
        return [_type_name(t) for t in value.type]
    if value.shape:
        return [_dimensions(shape) for shape in value.shape]
    if value.s:
        return [_text(text) for text in value.s]
    return None if value.func or value.tensor else []


_TYPE_NAMES: dict[int, str] = {}


def _type_name(number: int) -> str:
    """Returns the name of an element type, cached."""
    if number not in _TYPE_NAMES:
        _TYPE_NAMES[number] = str(tf.as_dtype(number).name)
    return _TYPE_NAMES[number]


def _dimensions(shape: Any) -> list[int] | None:
    return None if shape.unknown_rank else [int(dim.size) for dim in shape.dim]


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
