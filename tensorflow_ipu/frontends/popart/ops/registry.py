"""`RegisteredOp`: the record of an op; `@op` registers one, and lists name all of them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

import onnx
import tensorflow as tf
from onnx import defs

from tensorflow_ipu.frontends.common.enums import DataType
from tensorflow_ipu.frontends.common.op_registry import GradientRule, OpRegistry
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception

# --- Records and registration ---

ONNX, GRAPHCORE = "", "ai.graphcore"


# Attribute with the groups of replicas of a collective: kind and size.
COMM_GROUP = "__collectiveCommGroup"


Compute = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class RegisteredOp:
    """The record of an op in the registry.

    Attributes:
        domain: Its domain; "" is that of ONNX.
        type: Its type, such as "Conv".
        since: Version of the domain that it is as of.
        compute: Takes TensorFlow tensors (None for optional inputs that are left out) and the
            attributes by name; returns one tensor or a sequence.
        known: Positions of inputs that have to be known when the session is made; they are NumPy
            arrays.
        gradient: How gradients flow through it.
        folds: Whether it is computed on the host if its inputs are constants.
        of_shapes: Whether it is a function of shapes alone, and so always computed on the host.
        takes_context: Whether `compute` takes `context`, the interface of the session.
        reads_node: Whether `compute` reads the attributes from the node of `context`.
    """

    domain: str
    type: str
    since: int
    compute: Compute
    known: tuple[int, ...] = ()
    gradient: GradientRule = GradientRule.DERIVED
    folds: bool = False
    of_shapes: bool = False
    takes_context: bool = False
    reads_node: bool = False

    def __repr__(self) -> str:
        return f"RegisteredOp({self.domain or 'ai.onnx'}.{self.type}:{self.since})"

    @property
    def attributes(self) -> frozenset[str]:
        """Names of the attributes that it takes."""
        return frozenset(self._parameters)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of its inputs, as `compute` calls them."""
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = inspect.signature(self.compute).parameters.values()
        return tuple(p.name for p in parameters if p.kind is not keyword)

    def parameter(self, attribute: str) -> str:
        """Returns the parameter of `compute` for an attribute.

        Args:
            attribute: its name, which may be a word of Python: the parameter then ends with "_".
        """
        return self._parameters[attribute]

    @functools.cached_property
    def _parameters(self) -> dict[str, str]:
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = inspect.signature(self.compute).parameters.values()
        names = [p.name for p in parameters if p.kind is keyword and not p.name.startswith("_")]
        return {name.rstrip("_"): name for name in names if name != "context"}


# By domain and type.
_REGISTRY: OpRegistry[tuple[str, str], RegisteredOp] = OpRegistry()
# Find records of ops that are not in the registry, by domain, type and version.
_FINDERS: list[Callable[[str, str, int], RegisteredOp | None]] = []


def op(
    type_: str,
    *versions: int,
    domain: str = ONNX,
    known: tuple[int, ...] = (),
    gradient: GradientRule = GradientRule.DERIVED,
    folds: bool = False,
    of_shapes: bool = False,
) -> Callable[[Compute], Compute]:
    """Decorator: registers the function of an op.

    Its positional parameters are the inputs of the node, its keyword-only ones the attributes, and
    `context`, if it has that.

    Args:
        type_: type of the op.
        *versions: versions of the domain that it is as of.
        domain: its domain.
        known: as in `RegisteredOp`.
        gradient: as in `RegisteredOp`.
        folds: as in `RegisteredOp`.
        of_shapes: as in `RegisteredOp`.

    Raises:
        ValueError: If the op is registered in one of the versions.
    """

    def enter(compute: Compute) -> Compute:
        takes_context = "context" in inspect.signature(compute).parameters
        for since in versions:
            record = RegisteredOp(
                domain, type_, since, compute, known, gradient, folds, of_shapes, takes_context
            )
            _REGISTRY.add((domain, type_), record, since)
        return compute

    return enter


def carry_on(type_: str, versions: Iterable[int], folds: bool | None = None) -> None:
    """Registers an op of ONNX in versions that mean the same as the one before each.

    Args:
        type_: type of the op.
        versions: the versions; versions that are registered stay as they are.
        folds: as in `RegisteredOp`; by default as before.
    """
    key = (ONNX, type_)
    for version in sorted(set(versions) - set(_REGISTRY.versions(key))):
        before = find(*key, version)
        kept = before.folds if folds is None else folds
        record = dataclasses.replace(before, since=version, folds=kept)
        _REGISTRY.add(key, record, version)


def add_finder(finder: Callable[[str, str, int], RegisteredOp | None]) -> None:
    """Adds a source of ops that are not in the registry.

    Args:
        finder: takes domain, type and version; returns the record of the op, or None.
    """
    _FINDERS.append(finder)


def replace(domain: str, type_: str, compute: Compute) -> None:
    """Registers an op for all versions of a domain, in place of an earlier one.

    Args:
        domain: the domain.
        type_: the type.
        compute: as in `RegisteredOp`.
    """
    _REGISTRY.remove((domain, type_))
    op(type_, 1, domain=domain)(compute)


def find(domain: str, type_: str, version: int) -> RegisteredOp:
    """Returns the record of an op in a version of its domain.

    Args:
        domain: the domain.
        type_: the type.
        version: the version.

    Raises:
        popart_exception: If there is none.
    """
    key = ("" if domain == "ai.onnx" else domain, type_)
    found = _REGISTRY.find(key, version)
    for finder in () if found else _FINDERS:
        found = found or finder(*key, version)
    if found is None:
        known = sorted(_REGISTRY.versions(key))
        raise popart_exception(
            f"No op {domain or 'ai.onnx'}.{type_} of opset {version} is supported"
            f"{f': there are versions {known}' if known else ''}. No class for "
            f"{domain or 'ai.onnx'}.{type_}:{version}: if a library has it, load the library first."
        )
    return found


def schema_of(kind: RegisteredOp) -> Any:
    """Returns ONNX's schema of an op; None if it has none.

    Args:
        kind: the op.
    """
    try:
        return None if kind.domain else defs.get_schema(kind.type, kind.since, "")
    except defs.SchemaError:
        return None


def all_ops() -> list[RegisteredOp]:
    """Returns the records of all ops in all versions."""
    return list(_REGISTRY)


def with_refused_gradient(tensor: Any, message: str) -> Any:
    """Returns a tensor whose gradient is an error.

    Args:
        tensor: the tensor.
        message: the message of the error.
    """

    @tf.custom_gradient
    def identity(x: Any) -> tuple[Any, Callable[[Any], NoReturn]]:
        def backward(_: Any) -> NoReturn:
            raise popart_exception(message)

        return tf.identity(x), backward

    return identity(tensor)


def with_zero_gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function of one tensor with gradient zero instead of no gradient.

    Args:
        function: the function.
    """

    @tf.custom_gradient
    def computed(x: Any) -> Any:
        return function(x), tf.zeros_like

    return computed


# --- Lists of supported and unsupported ops ---

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
    found = {_identifier(kind): _definition(kind) for kind in all_ops()}
    return {**_internal(), **found} if includeInternal else found


def getUnsupportedOperations(opsetVersion: int) -> list[OperatorIdentifier]:
    """Returns the ops of a version of ONNX that do not run.

    Args:
        opsetVersion: the version.
    """
    supported = {kind.type for kind in all_ops() if not kind.domain}
    names = {
        schema.name
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.since_version <= opsetVersion
    }
    return [OperatorIdentifier("ai.onnx", name, opsetVersion) for name in sorted(names - supported)]


def _internal() -> dict[OperatorIdentifier, OpDefinition]:
    """Returns the gradients of ops, and the in-place forms of elementwise ops."""
    found = {}
    for kind in all_ops():
        added = []
        if kind.gradient is GradientRule.DERIVED:
            added.append(f"{kind.type}Grad")
        if kind.type in _IN_PLACE:
            added.append(f"{kind.type}Inplace")
        for type_ in added:
            found[OperatorIdentifier("ai.graphcore", type_, 1)] = _definition(kind)
    return found


def _identifier(kind: RegisteredOp) -> OperatorIdentifier:
    return OperatorIdentifier(kind.domain or "ai.onnx", kind.type, kind.since)


def _definition(kind: RegisteredOp) -> OpDefinition:
    made = OpDefinition.__new__(OpDefinition)
    made.attributes = {name: OpAttribute(".*") for name in sorted(kind.attributes)}
    schema = schema_of(kind)
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
