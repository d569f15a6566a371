"""`GraphLowering`: graphs as TensorFlow functions, one for each called graph."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import func_graph as func_graph_lib

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import source_map, trace
from tensorflow_ipu.compiler.ir.program import OUTLINED_PREFIX
from tensorflow_ipu.compiler.source_map import SourceLocation
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.ir import Graph, Op, reachable, storage_of
from tensorflow_ipu.frontends.popxl.lowering import analysis, hints
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed
    from tensorflow_ipu.frontends.popxl.lowering.transfers import RemoteMemory
    from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
    from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream


class Values:
    """The TensorFlow tensor that each tensor of a graph holds now.

    To write gives a new TensorFlow tensor to all tensors that have storage of their own and are
    written; views are read from those. So nothing in the program is modified in place.
    """

    def __init__(self, initial: Callable[[Tensor], Any]) -> None:
        """Starts with no values.

        Args:
            initial: returns the value of a variable or constant that is read first.
        """
        self._initial = initial
        self._held: dict[Tensor, Any] = {}
        # Views, with the values that they were read from.
        self._read: dict[Tensor, tuple[list[Any], Any]] = {}

    def define(self, tensor: Tensor, value: Any) -> None:
        """Sets the value of a tensor with storage of its own, when it is made.

        Args:
            tensor: the tensor.
            value: its value.
        """
        self._held[tensor] = value

    def read(self, tensor: Tensor) -> Any:
        """Returns the current value of a tensor.

        Args:
            tensor: the tensor.
        """
        if tensor.view is None:
            if tensor not in self._held:
                self._held[tensor] = self._initial(tensor)
            return self._held[tensor]
        roots = [self.read(root) for root in storage_of(tensor)]
        known = self._read.get(tensor)
        if known is None or any(a is not b for a, b in zip(known[0], roots)):
            known = roots, tensor.view.read([self.read(source) for source in tensor.sources])
            self._read[tensor] = known
        return known[1]

    def write(self, tensor: Tensor, value: Any) -> None:
        """Writes into a tensor, and so into all that share its storage.

        Args:
            tensor: the tensor.
            value: the value.
        """
        if tensor.view is None:
            self._held[tensor] = value
            return
        before = [self.read(source) for source in tensor.sources]
        for source, written in zip(tensor.sources, tensor.view.write(before, value)):
            self.write(source, written)


def _composite_of(op: Op) -> Mapping[str, Any] | None:
    """Returns the op that a plan costs instead, as `COMPOSITE_ATTRIBUTE` describes it, or None.

    Args:
        op: the op.
    """
    if op.kind.composite is None:
        return None
    specs = [tensor.spec for tensor in op.inputs]
    found: Mapping[str, Any] | None = op.kind.composite(specs, **op.attributes)
    return found


def _call_composite(op: Op, said: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """Puts the computation of an op into a function and calls it from the function in scope.

    Args:
        op: the op, which only computes.
        said: the description of the composite op.
        inputs: the values of its operands.

    Returns:
        The results, as `OpKind.compute` returns them.
    """
    compute = op.kind.compute
    if compute is None:
        raise AssertionError(f"{op!r} has no `compute` to put into a function.")
    name = f"popxl_{op.kind.type}_{op.graph.ir.id}_{op.id}"
    computed = functools.partial(compute, **op.attributes)
    return trace.call_composite(name, computed, inputs, lambda _: said)


class Surroundings(Protocol):
    """State shared by all graphs of a program (`lowering.programs.LoweredProgram`)."""

    @property
    def is_sharded(self) -> bool:
        """Whether the program uses more than one IPU."""

    @property
    def places(self) -> analysis.Places:
        """The IPUs that tensors are on."""

    def read_state(self, tensor: Tensor) -> Any:
        """Returns the value of a persistent tensor at the start of the program.

        Args:
            tensor: a variable, or a tensor of another program of the session.
        """

    def remote(self, buffer: RemoteBuffer) -> RemoteMemory:
        """Returns the device memory of a remote buffer."""

    def function(self, graph: Graph) -> GraphFunction:
        """Returns the function of a graph that is called."""

    def infeed(self, stream: HostToDeviceStream) -> ArrayInfeed:
        """Returns the feed that brings a stream to the program."""

    def outfeed(self, stream: DeviceToHostStream) -> ArrayOutfeed:
        """Returns the feed that brings a stream to the host."""


class GraphLowering:
    """Puts the ops of a graph into the function in scope, in the order of their creation.

    Attributes:
        graph: The graph.
        program: What all graphs of the program share.
        values: What its tensors hold.
        effects: The last of the operations that have to run in order; empty before the first.
    """

    def __init__(
        self,
        graph: Graph,
        program: Surroundings,
        after: Callable[[GraphLowering, Op], None] = lambda lowering, op: None,
    ) -> None:
        """Starts with no ops.

        Args:
            graph: the graph.
            program: the state that all graphs of the program share.
            after: called after each op, in its place.
        """
        self._after = after
        self.graph = graph
        self.program = program
        self.values = Values(self._initial_value)
        self.effects: list[Any] = []
        self._site: SourceLocation | None = None

    def run(self, ops: Sequence[Op] | None = None) -> None:
        """Puts ops into the function.

        Args:
            ops: those of one program of the session; all of the graph by default.
        """
        for op in self.graph.ops if ops is None else ops:
            with self._place(op):
                if op.kind.lower is not None:
                    op.kind.lower(self, op)
                else:
                    self.compute(op, self.read_inputs(op))
                if "pipeline" in op.planned:
                    self.effects = [*self.effects, hints.pipeline(op)]
                self._after(self, op)

    def read_inputs(self, op: Op) -> list[Any]:
        """Returns the values of an op's operands."""
        return [self.values.read(tensor) for tensor in op.inputs]

    def define_outputs(self, op: Op, results: Sequence[Any]) -> None:
        """Sets the values of an op's outputs, then of the inputs that it writes.

        Args:
            op: the op.
            results: the values: those of outputs that are not views, then one for each input of
                `op.writes`.

        Raises:
            AssertionError: If the record of the op is wrong.
        """
        fresh, writes = op.fresh_outputs, op.writes
        if len(results) != len(fresh) + len(writes):
            raise AssertionError(f"{op!r} has {len(results)} results: its record is wrong.")
        for tensor, value in zip(fresh, results):
            _check(op, tensor, value)
            self.values.define(tensor, value)
        for position, value in zip(writes, results[len(fresh) :]):
            _check(op, op.inputs[position], value)
            self.values.write(op.inputs[position], value)

    @contextlib.contextmanager
    def in_order(self) -> Iterator[list[Any]]:
        """Runs the operations created inside after those with effects before.

        Yields:
            A list for the operations that those after have to wait for.
        """
        done: list[Any] = []
        with tf.control_dependencies(self.effects):
            yield done
        self.effects = done or self.effects

    def effects_of(self, has_effects: bool) -> contextlib.AbstractContextManager[list[Any]]:
        """Returns the scope `in_order` if an op has effects, else a scope without ordering.

        Args:
            has_effects: whether it has.
        """
        return self.in_order() if has_effects else contextlib.nullcontext([])

    def compute(self, op: Op, inputs: Sequence[Any]) -> None:
        """Adds an op's computation to the function.

        Args:
            op: the op.
            inputs: the values of its operands.

        Raises:
            AssertionError: If the op is not one that computes.
        """
        if op.kind.compute is None:
            raise AssertionError(f"{op!r} has neither `compute` nor `lower`.")
        said = _composite_of(op)
        with self.effects_of(op.kind.effect) as done:
            if said is None:
                results = op.kind.compute(*inputs, **op.attributes)
                results = list(results) if isinstance(results, (list, tuple)) else [results]
            else:
                results = _call_composite(op, said, inputs)
            done.extend(result.op for result in results)
        self.define_outputs(op, results)

    def _initial_value(self, tensor: Tensor) -> Any:
        if isinstance(tensor, Constant):
            data = tensor.data.view("uint8") if tensor.dtype.is_float8 else tensor.data
            return tf.constant(data, tf_type(tensor.dtype), tensor.shape)
        return self._read_state(tensor)

    def _read_state(self, tensor: Tensor) -> Any:
        """Reads a tensor that lasts from run to run, in a scope of its own: it has a layer."""
        graph = tf.compat.v1.get_default_graph()
        scope = "Read." + re.sub(r"[^\w.]", "_", tensor.id)
        source_map.declare(graph, scope, self._site, "/".join(hints.owner_of(tensor)))
        with graph.name_scope(scope + "/"), self.beside(tensor):
            return self.program.read_state(tensor)

    @contextlib.contextmanager
    def _place(self, op: Op) -> Iterator[None]:
        """Puts operations where the program asks for, with names that lead back to the op."""
        self._site = op.site
        with contextlib.ExitStack() as stack:
            stack.enter_context(hints.of(op))
            # What runs graphs is where the ops of these are.
            stack.enter_context(self._on(None if op.called else op.ipu))
            yield

    def beside(self, tensor: Tensor) -> contextlib.AbstractContextManager[None]:
        """Returns the scope of the IPU that holds a persistent tensor.

        Args:
            tensor: the tensor.
        """
        return self._on(analysis.home_of(tensor) if self.program.is_sharded else None)

    def at_end(self, tensor: Tensor) -> contextlib.AbstractContextManager[None]:
        """Returns the scope of the IPU that has a tensor when its graph has run.

        Args:
            tensor: a tensor of this graph, or of one that it calls.
        """
        known = self.program.is_sharded
        found = self.program.places.end_of(tensor.graph, tensor) if known else None
        return self._on(found)

    def placed(self, tensor: Tensor, value: Any) -> Any:
        """Returns a value on the IPU that has a tensor when its graph has run.

        Args:
            tensor: a tensor of this graph, or of one that it calls.
            value: its new value.
        """
        if not self.program.is_sharded:
            return value
        with self.at_end(tensor):
            return tf.identity(value)

    def _on(self, ipu: int | None) -> contextlib.AbstractContextManager[None]:
        """The scope of an IPU, if the program uses several and it is known."""
        if ipu is None or not self.program.is_sharded:
            return contextlib.nullcontext()
        return scopes.ipu_shard(ipu)


def _check(op: Op, tensor: Tensor, value: Any) -> None:
    """Raises if a result differs from the op's record in shape or type."""
    if tuple(value.shape) != tensor.shape or value.dtype != tf_type(tensor.dtype):
        raise AssertionError(
            f"{op!r} makes {value.dtype.name}{tuple(value.shape)}, where its record says "
            f"{tensor.dtype.name}{tensor.shape}."
        )


@dataclasses.dataclass(frozen=True)
class GraphFunction:
    """A graph as a function of TensorFlow.

    Attributes:
        graph: The graph.
        modified: Positions of the inputs that it writes.
        has_effects: Whether it does more than compute.
        function: Takes the inputs; returns the outputs, then the last values of `modified`, then
            a number if there would be no result.
    """

    graph: Graph
    modified: tuple[int, ...]
    has_effects: bool
    function: ConcreteFunction

    def call(self, inputs: Sequence[Any]) -> tuple[list[Any], dict[int, Any], Any]:
        """Calls it in the function that is being built.

        Args:
            inputs: values of the inputs.

        Returns:
            The outputs, the last values of the modified inputs by position, and the operation that
            ends with all effects.
        """
        captured = self.function.graph.external_captures  # remote buffers
        results = list(self.function._call_flat(list(inputs), captured))
        count = len(self.graph.outputs)
        return (
            results[:count],
            dict(zip(self.modified, results[count:])),
            results[0].op,
        )


def make_function(graph: Graph, program: Surroundings) -> GraphFunction:
    """Makes the function of a graph.

    Args:
        graph: the graph.
        program: the program that it is part of.
    """
    modified = modified_inputs(graph)
    name = re.sub(r"\W+", "_", graph.id).strip("_") or "main"

    def build(*placeholders: Any) -> list[Any]:
        lowering = GraphLowering(graph, program)
        for tensor, placeholder in zip(graph.inputs, placeholders):
            lowering.values.define(tensor, placeholder)
        lowering.run()
        kept = [*graph.outputs, *(graph.inputs[position] for position in modified)]
        with tf.control_dependencies(lowering.effects):
            results = [_result(lowering, tensor) for tensor in kept]
            return results or [tf.constant(0)]

    specs = [
        tf.TensorSpec(tensor.shape, tf_type(tensor.dtype), re.sub(r"\W", "_", f"in_{tensor.name}"))
        for tensor in graph.inputs
    ]
    traced = func_graph_lib.func_graph_from_py_func(
        name, build, specs, {}, add_control_dependencies=False
    )
    unique = f"{OUTLINED_PREFIX}popxl_{name}_{graph.ir.id}"
    atomic = atomic_function.from_func_graph(unique, traced, {})
    function = ConcreteFunction(atomic, shared_func_graph=True)
    return GraphFunction(graph, modified, has_effects(graph), function)


def _result(lowering: GraphLowering, tensor: Tensor) -> Any:
    """Returns the value of a graph's output, on the IPU that holds the tensor at the end."""
    value = lowering.values.read(tensor)
    with lowering.at_end(tensor):
        return tf.identity(value)


def has_effects(graph: Graph) -> bool:
    """Returns whether a graph or any of its callees has side effects."""
    return any(op.kind.effect for called in reachable(graph) for op in called.ops)


def written(graph: Graph) -> list[Tensor]:
    """Returns the tensors with storage of their own that ops of a graph write."""
    roots = [
        root
        for op in graph.ops
        for position in op.writes
        for root in storage_of(op.inputs[position])
    ]
    return list(dict.fromkeys(roots))


def modified_inputs(graph: Graph) -> tuple[int, ...]:
    """Returns the positions of the inputs of a graph that its ops write."""
    found = set(written(graph))
    return tuple(i for i, tensor in enumerate(graph.inputs) if tensor in found)
