"""Which ops run: `getSupportedOperations` and the like."""

from __future__ import annotations

from typing import NamedTuple

from onnx import defs

from tensorflow_ipu.frontends.popart.ops import kinds


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


class OpDefinition(NamedTuple):
    """What an op takes and makes.

    Args:
        inputs: names of its inputs.
        outputs: names of its outputs.
        attributes: names of its attributes.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]


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
    return [OperatorIdentifier("ai.onnx", name, opsetVersion) for name in sorted(names - supported)]


def _identifier(kind: kinds.OpKind) -> OperatorIdentifier:
    return OperatorIdentifier(kind.domain or "ai.onnx", kind.type, kind.since)


def _definition(kind: kinds.OpKind) -> OpDefinition:
    attributes = tuple(sorted(kind.attributes))
    if kind.domain:
        return OpDefinition((), (), attributes)
    try:
        schema = defs.get_schema(kind.type, kind.since, "")
    except defs.SchemaError:
        return OpDefinition((), (), attributes)
    return OpDefinition(
        tuple(part.name for part in schema.inputs),
        tuple(part.name for part in schema.outputs),
        attributes,
    )
