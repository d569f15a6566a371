"""`Lowering`: puts the ops of one graph into the TensorFlow function that is being built."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.compiler.source_map import SourceLocation
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.lowering import composites, hints, layers, places
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.lowering.values import Values
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.lowering.functions import GraphFunction
    from tensorflow_ipu.frontends.popxl.lowering.remote import RemoteMemory
    from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
    from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream


class Surroundings(Protocol):
    """What all graphs of a program share (`lowering.programs.Program`)."""

    @property
    def is_sharded(self) -> bool:
        """Whether the program uses more than one IPU."""

    @property
    def places(self) -> places.Places:
        """The IPUs that tensors are on."""

    def read_state(self, tensor: Tensor) -> Any:
        """Returns what a tensor that lasts from run to run holds when the program starts.

        Args:
            tensor: a variable, or a tensor of another program of the session.
        """

    def remote(self, buffer: RemoteBuffer) -> RemoteMemory:
        """Returns what holds the entries of a remote buffer."""

    def function(self, graph: Graph) -> GraphFunction:
        """Returns the function of a graph that is called."""

    def infeed(self, stream: HostToDeviceStream) -> ArrayInfeed:
        """Returns the feed that brings a stream to the program."""

    def outfeed(self, stream: DeviceToHostStream) -> ArrayOutfeed:
        """Returns the feed that brings a stream to the host."""


class Lowering:
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
        after: Callable[[Lowering, Op], None] = lambda lowering, op: None,
    ) -> None:
        """Starts with no ops.

        Args:
            graph: the graph.
            program: what all graphs of the program share.
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
        """Returns what the inputs of an op hold."""
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
        """Returns the scope `in_order` for an op that has effects, else one that orders nothing.

        Args:
            has_effects: whether it has.
        """
        return self.in_order() if has_effects else contextlib.nullcontext([])

    def compute(self, op: Op, inputs: Sequence[Any]) -> None:
        """Adds an op's computation to the function.

        Args:
            op: the op.
            inputs: what its inputs hold.

        Raises:
            AssertionError: If the op is not one that computes.
        """
        if op.kind.compute is None:
            raise AssertionError(f"{op!r} has neither `compute` nor `lower`.")
        said = composites.said_of(op)
        with self.effects_of(op.kind.effect) as done:
            if said is None:
                results = op.kind.compute(*inputs, **op.attributes)
                results = list(results) if isinstance(results, (list, tuple)) else [results]
            else:
                results = composites.call(op, said, inputs)
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
        source_map.declare(graph, scope, self._site, "/".join(layers.owner_of(tensor)))
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
        """Returns the scope of the IPU that has a tensor, one that lasts from run to run.

        Args:
            tensor: the tensor.
        """
        return self._on(places.home_of(tensor) if self.program.is_sharded else None)

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
            value: what it holds then.
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
    """Compares what an op makes with what its record says."""
    if tuple(value.shape) != tensor.shape or value.dtype != tf_type(tensor.dtype):
        raise AssertionError(
            f"{op!r} makes {value.dtype.name}{tuple(value.shape)}, where its record says "
            f"{tensor.dtype.name}{tensor.shape}."
        )
