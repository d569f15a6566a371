"""The methods of the opsets 6 to 11 of ONNX, made from the schemas of the package `onnx`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from onnx import defs, numpy_helper

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.building import texts
from tensorflow_ipu.frontends.popart.building.graph import ONNX_DOMAIN
from tensorflow_ipu.frontends.popart.building.methods import CoreOpset, node, onnx_number
from tensorflow_ipu.frontends.popart.debugging.context import as_context

VERSIONS = (6, 7, 8, 9, 10, 11)
DEFAULT_VERSION = 10

_RENAMED = {"And": "logical_and", "Or": "logical_or", "Not": "logical_not", "Xor": "logical_xor"}
_RENAMED["If"] = "logical_if"
_EMPTY = inspect.Parameter.empty


class OnnxOpset(CoreOpset):
    """The ops of one version of ONNX."""

    domain = ONNX_DOMAIN

    def constant(self, value: Any, is_value_sparse: bool = False, debugContext: Any = "") -> str:
        """Adds a constant.

        Args:
            value: the array.
            is_value_sparse: whether it is written as a sparse tensor; only False is possible.
            debugContext: name of the node.

        Returns:
            The id of the tensor.

        Raises:
            popart_exception: If the type of the array is not supported.
        """
        array = np.asarray(value)
        datatypes.of_data(array)
        if is_value_sparse:
            raise datatypes.popart_exception("Constants cannot be sparse: pass a whole array.")
        attributes = {"value": numpy_helper.from_array(array)}
        context = as_context(debugContext)
        ids = self._core.add_node("Constant", ONNX_DOMAIN, self.version, [], 1, attributes, context)
        return str(ids[0])


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
    """Returns what a parameter has if it is not passed."""
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
        (name, _default(a)) for name, a in schema.attributes.items() if name != "auto_pad"
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


def _method(schema: Any) -> Any:
    """Returns the method of an op."""
    name = _RENAMED.get(schema.name, schema.name.lower())

    def method(*args: Any, **kwargs: Any) -> Any:
        """Is replaced by what `node` makes of the signature."""

    method.__name__ = method.__qualname__ = name
    signature = _signature(schema)
    method.__doc__ = _text(schema, signature)
    method.__signature__ = signature  # type: ignore[attr-defined]
    added = node(schema.name, outputs=schema.min_output)(method)
    if schema.name != "Cast":
        return added

    def cast(self: Any, args: Any, to: Any, debugContext: Any = "") -> Any:
        return added(self, args, onnx_number(to), debugContext)

    cast.__doc__ = added.__doc__
    return cast


def _text(schema: Any, signature: inspect.Signature) -> str:
    """Returns the docstring of the method of an op, from what its schema says."""
    optional = defs.OpSchema.FormalParameterOption.Optional
    inputs = [f"{i.name} (optional)" if i.option == optional else i.name for i in schema.inputs]
    attributes = {
        name: " ".join(attribute.description.split()).split(". ")[0].rstrip(".") or "as in ONNX"
        for name, attribute in schema.attributes.items()
    }
    lines = {name: f"{text}." for name, text in attributes.items()}
    summary = f"Adds the op {schema.name} of ONNX."
    return texts.with_arguments(summary, signature, ", ".join(inputs), lines)


def _opset(version: int) -> type[OnnxOpset]:
    """Returns the class of an opset."""
    members = {"version": version, "__doc__": f"The ops of version {version} of ONNX."}
    for schema in _schemas(version):
        if schema.name != "Constant":
            method = _method(schema)
            members[method.__name__] = method
    return type(f"AiOnnxOpset{version}", (OnnxOpset,), members)


OPSETS = {version: _opset(version) for version in VERSIONS}
