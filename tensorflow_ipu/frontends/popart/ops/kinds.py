"""`RegisteredOp`: the record of an op; `@op` registers one. Gradients that an op overrides."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import tensorflow as tf
from onnx import defs

from tensorflow_ipu.frontends.popart.errors import popart_exception

ONNX, GRAPHCORE = "", "ai.graphcore"
# Attribute with the groups of replicas of a collective: kind and size.
COMM_GROUP = "__collectiveCommGroup"
Compute = Callable[..., Any]


class GradientRule(enum.Enum):
    """How gradients flow through an op.

    Attributes:
        DERIVED: The derivative of its TensorFlow ops.
        NONE: None: tensors before it are not trained.
        CUT: None, which is the purpose of the op.
        REFUSED: To ask for one is an error.
    """

    DERIVED = "derived"
    NONE = "none"
    CUT = "cut"
    REFUSED = "refused"


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


# (domain, type) -> versions -> kind
_TABLE: dict[tuple[str, str], dict[int, RegisteredOp]] = {}


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
        ValueError: If the op is in the table.
    """

    def enter(compute: Compute) -> Compute:
        takes_context = "context" in inspect.signature(compute).parameters
        entries = _TABLE.setdefault((domain, type_), {})
        for since in versions:
            if since in entries:
                raise ValueError(f"There is an op {type_} of version {since} already.")
            entries[since] = RegisteredOp(
                domain, type_, since, compute, known, gradient, folds, of_shapes, takes_context
            )
        return compute

    return enter


def carry_on(type_: str, versions: Iterable[int], folds: bool | None = None) -> None:
    """Enters an op of ONNX in versions that mean the same as the one before each.

    Args:
        type_: type of the op.
        versions: the versions; those that are in the table stay.
        folds: as in `RegisteredOp`; by default as before.
    """
    entries = _TABLE[ONNX, type_]
    for version in sorted(set(versions) - set(entries)):
        before = entries[max(since for since in entries if since < version)]
        kept = before.folds if folds is None else folds
        entries[version] = dataclasses.replace(before, since=version, folds=kept)


def replace(domain: str, type_: str, compute: Compute) -> None:
    """Enters an op of any version of a domain, also if the table has it.

    Args:
        domain: the domain.
        type_: the type.
        compute: as in `RegisteredOp`.
    """
    _TABLE.pop((domain, type_), None)
    op(type_, 1, domain=domain)(compute)


def find(domain: str, type_: str, version: int) -> RegisteredOp:
    """Returns the kind of an op in a version of its domain.

    Args:
        domain: the domain.
        type_: the type.
        version: the version.

    Raises:
        popart_exception: If there is none.
    """
    known = _TABLE.get(("" if domain == "ai.onnx" else domain, type_), {})
    fitting = [since for since in known if since <= version]
    if not fitting:
        raise popart_exception(
            f"No op {domain or 'ai.onnx'}.{type_} of opset {version} is supported"
            f"{f': there are versions {sorted(known)}' if known else ''}."
        )
    return known[max(fitting)]


def schema_of(kind: RegisteredOp) -> Any:
    """Returns ONNX's schema of an op; None if it has none.

    Args:
        kind: the op.
    """
    try:
        return None if kind.domain else defs.get_schema(kind.type, kind.since, "")
    except defs.SchemaError:
        return None


def all_kinds() -> list[RegisteredOp]:
    """Returns the table."""
    return [kind for entries in _TABLE.values() for kind in entries.values()]


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
    """Returns a function of one tensor whose gradient is zero, where TensorFlow's has none.

    Args:
        function: the function.
    """

    @tf.custom_gradient
    def computed(x: Any) -> Any:
        return function(x), tf.zeros_like

    return computed
