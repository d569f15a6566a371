"""Lists of supported and unsupported ops: `getSupportedOperations` and others."""

from __future__ import annotations

from typing import Any, NamedTuple

import onnx
from onnx import defs

from tensorflow_ipu.frontends.common.enums import DataType
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.ops import kinds

_DEVICE_TYPES = tuple(type_ for type_ in datatypes.TYPES if type_.tf is not None)
# Ops that the original can also compute in place.
_IN_PLACE = frozenset(
    {
        *("Add", "Mul", "Exp", "Sigmoid", "Relu", "Scale", "Concat", "Reshape", "Slice", "Pad"),
        *("Softmax", "Sign", "Round", "Expand", "Transpose", "Squeeze", "Identity", "Swish"),
    }
)
_EVERY_TYPE = tuple(type_.member for type_ in _DEVICE_TYPES)


class OperatorIdentifier(NamedTuple):
    """An op of a version of a domain.

    Args:
        domain: the domain.
        type: the op.
        version: the version.
    """

    domain: str
    type: str
    version: int


class OpInput(NamedTuple):
    """An input of an op.

    Args:
        name: its name.
        supportedTensors: the types that it can have.
        constant: whether its value has to be known when a session is made.
    """

    name: str
    supportedTensors: tuple[DataType, ...]
    constant: bool


class OpOutput(NamedTuple):
    """An output of an op.

    Args:
        name: its name.
        supportedTensors: the types that it can have.
    """

    name: str
    supportedTensors: tuple[DataType, ...]


class OpAttribute(NamedTuple):
    """An attribute of an op.

    Args:
        supportedValuesRegex: the pattern of its supported values.
    """

    supportedValuesRegex: str


class OpDefinition:
    """Inputs, outputs and attributes of an op; `getSupportedOperationsDefinition` returns them.

    Attributes:
        inputs: Its inputs.
        outputs: Its outputs.
        attributes: Its attributes by name.
    """

    inputs: tuple[OpInput, ...]
    outputs: tuple[OpOutput, ...]
    attributes: dict[str, OpAttribute]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Refuses to make one.

        Raises:
            TypeError: Always.
        """
        raise TypeError("OpDefinition: No constructor defined!")

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(p.name for p in part) for part in (self.inputs, self.outputs))
        return f"OpDefinition[({inputs}) -> ({outputs})]"


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """Returns the ops that run.

    Args:
        includeInternal: whether to list ops too that no model has: gradients, and forms in place.
    """
    return list(getSupportedOperationsDefinition(includeInternal))


def getSupportedOperationsDefinition(
    includeInternal: bool,
) -> dict[OperatorIdentifier, OpDefinition]:
    """Returns inputs, outputs and attributes of the supported ops.

    Args:
        includeInternal: as for `getSupportedOperations`.
    """
    found = {_identifier(kind): _definition(kind) for kind in kinds.all_kinds()}
    return {**_internal(), **found} if includeInternal else found


def getUnsupportedOperations(opsetVersion: int) -> list[OperatorIdentifier]:
    """Returns the ops of a version of ONNX that do not run.

    Args:
        opsetVersion: the version.
    """
    supported = {kind.type for kind in kinds.all_kinds() if not kind.domain}
    names = {
        schema.name
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.since_version <= opsetVersion
    }
    return [OperatorIdentifier("ai.onnx", name, opsetVersion) for name in sorted(names - supported)]


def _internal() -> dict[OperatorIdentifier, OpDefinition]:
    """Returns the gradients of ops, and the in-place forms of elementwise ops."""
    found = {}
    for kind in kinds.all_kinds():
        added = []
        if kind.gradient is kinds.GradientRule.DERIVED:
            added.append(f"{kind.type}Grad")
        if kind.type in _IN_PLACE:
            added.append(f"{kind.type}Inplace")
        for type_ in added:
            found[OperatorIdentifier("ai.graphcore", type_, 1)] = _definition(kind)
    return found


def _identifier(kind: kinds.RegisteredOp) -> OperatorIdentifier:
    return OperatorIdentifier(kind.domain or "ai.onnx", kind.type, kind.since)


def _definition(kind: kinds.RegisteredOp) -> OpDefinition:
    made = OpDefinition.__new__(OpDefinition)
    made.attributes = {name: OpAttribute(".*") for name in sorted(kind.attributes)}
    schema = kinds.schema_of(kind)
    if schema is None:
        made.inputs = tuple(
            OpInput(name, _EVERY_TYPE, position in kind.known)
            for position, name in enumerate(kind.inputs)
        )
        made.outputs = (OpOutput("output", _EVERY_TYPE),)
        return made
    made.inputs = tuple(
        OpInput(part.name, _types(part), position in kind.known)
        for position, part in enumerate(schema.inputs)
    )
    made.outputs = tuple(OpOutput(part.name, _types(part)) for part in schema.outputs)
    return made


def _types(part: Any) -> tuple[DataType, ...]:
    """Returns the types of an input or output that the device has."""
    names = {name[len("tensor(") : -1] for name in part.types}
    return tuple(
        type_.member
        for type_ in _DEVICE_TYPES
        if onnx.TensorProto.DataType.Name(type_.onnx).lower() in names
    )
