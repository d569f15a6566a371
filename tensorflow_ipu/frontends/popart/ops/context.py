"""`Context`: the interface of a session to its ops; seeds and effects of the ops of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import onnx
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception


@dataclasses.dataclass(frozen=True)
class Numerics:
    """Options of a session that change the results of ops.

    Attributes:
        non_stable_softmax: Whether softmax does not subtract the maximum.
        strided_groups: Whether the channels of a group norm go round-robin into groups.
        fuses_softmax: Whether the gradient of a likelihood of a softmax is computed as one.
        takes_steps: Whether slices take steps.
        for_libraries: Names and values of the options that ops of C++ libraries may ask for.
    """

    non_stable_softmax: bool = False
    strided_groups: bool = False
    fuses_softmax: bool = True
    takes_steps: bool = False
    for_libraries: tuple[tuple[str, int], ...] = ()


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


class ProgramServices:
    """Seeds for the ops of one micro-batch, and their side effects.

    Attributes:
        effects: Operations that have to run.
        ordered: Those of them that run in the order of the nodes.
        assigned: New values of weights, by id.
        needs_seed: Whether an op has asked for a seed.
    """

    def __init__(self, seed: Callable[[], Any] | None = None) -> None:
        """Starts with nothing asked for.

        Args:
            seed: returns the seed of this replica in the micro-batch, int32 of the shape [2]; None
                if the program never runs.
        """
        self._seed = seed
        self._count = 0
        self.effects: list[Any] = []
        self.ordered: list[Any] = []
        self.assigned: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"ProgramServices[{self._count} seeds, {len(self.effects)} effects]"

    @property
    def needs_seed(self) -> bool:
        """Whether an op has asked for a seed."""
        return self._count > 0

    def seed(self) -> Any:
        """Returns a seed that no other op of the micro-batch has: int32 of the shape [2]."""
        self._count += 1
        if self._seed is None:
            return tf.zeros([2], tf.int32)
        return folded(self._seed(), self._count)

    def effect(self, operation: Any, ordered: bool = False) -> None:
        """Keeps an operation whose results have no uses.

        Args:
            operation: the operation.
            ordered: whether later ordered operations of the graph come after it.
        """
        self.effects.append(operation)
        if ordered:
            self.ordered.append(operation)

    def assign(self, tensor_id: str, value: Any) -> None:
        """Writes a weight after its last use in the micro-batch.

        Args:
            tensor_id: the weight.
            value: its new value.
        """
        self.assigned[tensor_id] = value


class InnerServices:
    """Seeds and effects of a subgraph, which leaves nothing behind but its results.

    Attributes:
        effects: Operations that have to run.
        ordered: Those of them that run in the order of the nodes.
    """

    def __init__(self, outer: ProgramServices | InnerServices, iteration: Any) -> None:
        """Takes the services of the graph around it.

        Args:
            outer: the services.
            iteration: number of the iteration: an integer, or a scalar tensor.
        """
        self._outer = outer
        self._iteration = iteration
        self.effects: list[Any] = []
        self.ordered: list[Any] = []

    def __repr__(self) -> str:
        return f"InnerServices[{len(self.effects)} effects]"

    def seed(self) -> Any:
        """Returns a seed that no other op and no other iteration has."""
        return folded(self._outer.seed(), self._iteration)

    def effect(self, operation: Any, ordered: bool = False) -> None:
        """Keeps an operation whose results have no uses.

        Args:
            operation: the operation.
            ordered: whether later ordered operations of the graph come after it.
        """
        self.effects.append(operation)
        if ordered:
            self.ordered.append(operation)

    def assign(self, tensor_id: str, value: Any) -> None:
        """Refuses to write a weight, which only the main graph can.

        Args:
            tensor_id: the weight.
            value: its new value.

        Raises:
            popart_exception: Always.
        """
        raise popart_exception(
            f"The weight {tensor_id} is written in a subgraph. Write it in the main graph: make "
            f"{value.name} an output of the subgraph."
        )


def folded(seed: Any, number: Any) -> Any:
    """Returns a seed made of another one and a number.

    Args:
        seed: int32 of the shape [2].
        number: an integer, or an int32 scalar.
    """
    mixed = seed + tf.stack([tf.constant(0), tf.cast(number, tf.int32)])
    return tf.random.stateless_uniform([2], mixed, None, None, tf.int32)


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
    services: ProgramServices | InnerServices | None = None
    node: onnx.NodeProto = dataclasses.field(default_factory=onnx.NodeProto)
    subgraph: Callable[[onnx.GraphProto], Subgraph] | None = None
    is_weight: Callable[[str], bool] = lambda _: True
    maker: Callable[[str], Made | None] = lambda _: None
    differentiated: frozenset[str] = frozenset()

    @property
    def output_count(self) -> int:
        """The number of outputs of the node."""
        return len(self.node.output)
