"""`RegisteredOp`: the record of an op; `@op` registers one. Gradients that an op overrides."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import onnx
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


@dataclasses.dataclass(frozen=True)
class Numerics:
    """Options of a session that change the results of ops.

    Attributes:
        non_stable_softmax: Whether softmax does not subtract the maximum.
        strided_groups: Whether the channels of a group norm go round-robin into groups.
        fuses_softmax: Whether the gradient of a likelihood of a softmax is computed as one.
        takes_steps: Whether slices take steps.
    """

    non_stable_softmax: bool = False
    strided_groups: bool = False
    fuses_softmax: bool = True
    takes_steps: bool = False


class Made(NamedTuple):
    """The node that makes a tensor.

    Args:
        node: the node that makes it.
        tensor: returns the tensor of an id, such as one that the node takes.
    """

    node: onnx.NodeProto
    tensor: Callable[[str], Any]


class Subgraph(Protocol):
    """A graph that is an attribute of a node, or that the node calls."""

    @property
    def input_names(self) -> list[str]:
        """Names of its inputs."""

    @property
    def graph(self) -> onnx.GraphProto:
        """The graph."""

    def around(self, name: str) -> Any:
        """Returns a tensor of the graph around it.

        Args:
            name: the tensor.
        """

    def __call__(self, tensors: Sequence[Any], iteration: Any = 0) -> list[Any]:
        """Puts the graph into the function in scope.

        Args:
            tensors: its inputs.
            iteration: number of the iteration, if it is in a loop.

        Returns:
            Its outputs.
        """

    def finished(self, tensors: Sequence[Any]) -> Any:
        """Puts the graph into the function in scope, for its effects.

        Args:
            tensors: its inputs.

        Returns:
            An operation that comes after all effects.
        """


class Services(Protocol):
    """Interface of the program to its ops: seeds and effects."""

    def seed(self) -> Any:
        """Returns a seed that no other op and no other run has: int32 of the shape [2]."""

    @property
    def ordered(self) -> Sequence[Any]:
        """Operations that the next ordered one depends on."""

    def effect(self, operation: Any, ordered: bool = False) -> None:
        """Keeps an operation whose results have no uses.

        Args:
            operation: the operation.
            ordered: whether later ordered operations of the graph come after it.
        """

    def assign(self, tensor_id: str, value: Any) -> None:
        """Writes a weight after its last use in the micro-batch.

        Args:
            tensor_id: the weight.
            value: its new value.
        """


@dataclasses.dataclass(frozen=True)
class Context:
    """Interface of the session to its ops: training, replicas, options and the node.

    Attributes:
        is_training: Whether it trains.
        replicas: How many replicas there are.
        numerics: Options that change the results of ops.
        services: What the program gives to ops.
        node: The node that is put into the program.
        subgraph: Returns the graph of an attribute of the node, ready to be put into the program.
        is_weight: Returns whether a tensor is a weight.
        maker: Returns the node that makes a tensor of the graph; None if there is none.
        differentiated: Tensors whose gradients are anchored.
    """

    is_training: bool = False
    replicas: int = 1
    numerics: Numerics = Numerics()
    services: Services | None = None
    node: onnx.NodeProto = dataclasses.field(default_factory=onnx.NodeProto)
    subgraph: Callable[[onnx.GraphProto], Subgraph] | None = None
    is_weight: Callable[[str], bool] = lambda _: True
    maker: Callable[[str], Made | None] = lambda _: None
    differentiated: frozenset[str] = frozenset()

    @property
    def output_count(self) -> int:
        """How many outputs the node has."""
        return len(self.node.output)


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
