"""The methods of the opsets 6 to 11 of ONNX, made from the schemas of the package `onnx`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.building import methods
from tensorflow_ipu.frontends.popart.building.graph import ONNX_DOMAIN
from tensorflow_ipu.frontends.popart.building.methods import CoreOpset, Type, node, onnx_number
from tensorflow_ipu.frontends.popart.debug_info import DebugContext, as_context
from tensorflow_ipu.frontends.popart.model import tensors
from tensorflow_ipu.frontends.popart.signatures import checked

VERSIONS = (6, 7, 8, 9, 10, 11)
DEFAULT_VERSION = 10

_RENAMED = {"And": "logical_and", "Or": "logical_or", "Not": "logical_not", "Xor": "logical_xor"}
_RENAMED["If"] = "logical_if"
# Attributes that nodes have only if they are passed, so that programs can add them.
_UNWRITTEN = {(type_, "direction") for type_ in ("RNN", "GRU", "LSTM")}
_EMPTY = inspect.Parameter.empty


@checked
class OnnxOpset(CoreOpset):
    """The ops of one version of ONNX."""

    domain = ONNX_DOMAIN

    def constant(self, value: Any, is_value_sparse: Any = False, debugContext: Any = "") -> str:
        """Adds a constant.

        Args:
            value: the array.
            is_value_sparse: whether it is written as a sparse tensor, which no session takes. The
                name of the node may stand in its place.
            debugContext: name of the node.

        Returns:
            The id of the tensor.

        Raises:
            popart_exception: If the type of the array is not supported.
        """
        if isinstance(is_value_sparse, (str, DebugContext)):
            is_value_sparse, debugContext = False, is_value_sparse
        array = np.asarray(value)
        datatypes.of_data(array)
        attributes: dict[str, Any] = {"value": tensors.made(array)}
        if is_value_sparse:
            attributes = {"sparse_value": _sparse(array)}
        context = as_context(debugContext)
        ids = self._core.add_node("Constant", ONNX_DOMAIN, self.version, [], 1, attributes, context)
        return str(ids[0])


def _sparse(array: np.ndarray) -> onnx.SparseTensorProto:
    """Returns a sparse tensor with the elements of an array that are not zero."""
    flat = array.reshape(-1)
    (places,) = np.nonzero(flat)
    indices = tensors.made(places.astype(np.int64))
    return helper.make_sparse_tensor(tensors.made(flat[places]), indices, array.shape)


def _schemas(version: int) -> list[Any]:
    """Returns the schemas of the ops of an opset, also of those that it deprecates."""
    newest: dict[str, Any] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == ONNX_DOMAIN and schema.since_version <= version:
            known = newest.get(schema.name)
            older = known is not None and known.since_version > schema.since_version
            if not schema.deprecated and not older:
                newest[schema.name] = schema
    return list(newest.values())


def _default(attribute: Any) -> Any:
    """Returns the default of a parameter."""
    if attribute.required:
        return _EMPTY
    default = attribute.default_value
    fields = {"FLOAT": "f", "INT": "i", "STRING": "s", "INTS": "ints", "FLOATS": "floats"}
    kind = default.AttributeType.Name(default.type)
    if kind not in fields:
        return None
    value = getattr(default, fields[kind])
    if kind == "STRING":
        return value.decode()
    return list(value) if kind.endswith("S") else value


def _takes_output_count(schema: Any) -> bool:
    """Returns whether the method of an op takes the number of outputs: if that is not fixed."""
    return bool(schema.min_output < schema.max_output or schema.name == "MaxPool")


def _signature(schema: Any) -> inspect.Signature:
    """Returns the signature of the method of an op: attributes that are required come first."""
    attributes = [
        (name, None if (schema.name, name) in _UNWRITTEN else _default(a))
        for name, a in schema.attributes.items()
        if name != "auto_pad"
    ]
    attributes.sort(key=lambda pair: (pair[1] is not _EMPTY, pair[0]))
    parameters = ["self", "args", *(["num_outputs"] if _takes_output_count(schema) else [])]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            *(
                inspect.Parameter(name, kind)
                for name in parameters
                if schema.max_input or name != "args"
            ),
            *(inspect.Parameter(name, kind, default=default) for name, default in attributes),
            inspect.Parameter("debugContext", kind, default=""),
        ]
    )


def _types(schema: Any) -> dict[str, Type]:
    """Returns the types of the attributes of an op; Cast takes names of types."""
    types: dict[str, Type] = {
        name: int(attribute.type.value) for name, attribute in schema.attributes.items()
    }
    return {**types, "to": onnx_number} if schema.name == "Cast" else types


def _method(schema: Any) -> Any:
    """Returns the method of an op."""
    name = _RENAMED.get(schema.name, schema.name.lower())

    def method(*args: Any, **kwargs: Any) -> Any:
        """Placeholder: `node` replaces it with a method of the signature."""

    method.__name__ = method.__qualname__ = name
    signature = _signature(schema)
    method.__doc__ = _text(schema, signature)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return node(schema.name, outputs=schema.min_output, types=_types(schema))(method)


def _text(schema: Any, signature: inspect.Signature) -> str:
    """Returns the docstring of an op's method, made from its schema."""
    optional = defs.OpSchema.FormalParameterOption.Optional
    inputs = [f"{i.name} (optional)" if i.option == optional else i.name for i in schema.inputs]
    attributes = {
        name: " ".join(attribute.description.split()).split(". ")[0].rstrip(".") or "as in ONNX"
        for name, attribute in schema.attributes.items()
    }
    lines = {name: f"{text}." for name, text in attributes.items()}
    summary = f"Adds the op {schema.name} of ONNX."
    return methods.with_arguments(summary, signature, ", ".join(inputs), lines)


def _opset(version: int) -> type[OnnxOpset]:
    """Returns the class of an opset."""
    members = {"version": version, "__doc__": f"The ops of version {version} of ONNX."}
    for schema in _schemas(version):
        if schema.name != "Constant":
            method = _method(schema)
            members[method.__name__] = method
    return type(f"AiOnnxOpset{version}", (OnnxOpset,), members)


OPSETS = {version: _opset(version) for version in VERSIONS}
