"""Which ops run: `getSupportedOperations` and the like."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from onnx import defs

from tensorflow_ipu.frontends.popart.ops import kinds

_DOMAIN = "ai.onnx"
_ANY_TEXT, _NUMBER = ".*", r"[-+]?\d*\.?\d+"


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


@dataclasses.dataclass(frozen=True)
class OpInput:
    """An input or output of an op.

    Args:
        name: its name.
        supportedTensors: types of tensors that it takes.
        constant: whether it has to be known when a session is made.
    """

    name: str
    supportedTensors: tuple[str, ...]
    constant: bool = False


@dataclasses.dataclass(frozen=True)
class OpAttribute:
    """An attribute of an op.

    Args:
        supportedValuesRegex: what its values look like.
    """

    supportedValuesRegex: str


class OpDefinition:
    """What an op takes and makes; only the functions below make them."""

    inputs: tuple[OpInput, ...]
    outputs: tuple[OpInput, ...]
    attributes: Mapping[str, OpAttribute]

    def __init__(self) -> None:
        """Refuses to make one.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "OpDefinition: No constructor defined! Use getSupportedOperationsDefinition."
        )

    def __repr__(self) -> str:
        return f"OpDefinition[{len(self.inputs)} inputs, {len(self.outputs)} outputs]"


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """Returns the ops that run.

    Args:
        includeInternal: whether to list ops of other domains than ONNX and ai.graphcore; there are
            none.
    """
    return [_identifier(kind) for kind in kinds.all_kinds()]


def getSupportedOperationsDefinition(
    includeInternal: bool,
) -> dict[OperatorIdentifier, OpDefinition]:
    """Returns what the ops that run take and make.

    Args:
        includeInternal: as for `getSupportedOperations`.
    """
    return {_identifier(kind): _definition(kind) for kind in kinds.all_kinds()}


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
    return [OperatorIdentifier(_DOMAIN, name, opsetVersion) for name in sorted(names - supported)]


def _identifier(kind: kinds.OpKind) -> OperatorIdentifier:
    return OperatorIdentifier(kind.domain or _DOMAIN, kind.type, kind.since)


def _definition(kind: kinds.OpKind) -> OpDefinition:
    found = object.__new__(OpDefinition)
    schema = _schema(kind)
    found.inputs = tuple(
        OpInput(part.name, _types(schema, part), position in kind.known)
        for position, part in enumerate(schema.inputs if schema else ())
    )
    found.outputs = tuple(
        OpInput(part.name, _types(schema, part)) for part in (schema.outputs if schema else ())
    )
    found.attributes = {name: OpAttribute(_regex(schema, name)) for name in sorted(kind.attributes)}
    return found


def _schema(kind: kinds.OpKind) -> Any:
    """Returns ONNX's schema of an op; None if it has none."""
    try:
        return None if kind.domain else defs.get_schema(kind.type, kind.since, "")
    except defs.SchemaError:
        return None


def _types(schema: Any, part: Any) -> tuple[str, ...]:
    """Returns the types of an input or output, in the spelling of `TensorInfo`."""
    allowed = {
        constraint.type_param_str: constraint.allowed_type_strs
        for constraint in schema.type_constraints
    }
    names = allowed.get(part.type_str, [part.type_str])
    found = (name[len("tensor(") : -1].upper() for name in names if name.startswith("tensor("))
    return tuple(sorted(found))


def _regex(schema: Any, name: str) -> str:
    attribute = schema.attributes.get(name) if schema else None
    is_number = attribute is not None and attribute.type.name in ("INT", "FLOAT")
    return _NUMBER if is_number else _ANY_TEXT
