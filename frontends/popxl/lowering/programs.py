"""`Program`: the main graph as a Cluster, with its variables and feeds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu import scopes
from tensorflow_ipu.compiler import launch, trace
from tensorflow_ipu.feeds.infeed import Infeed
from tensorflow_ipu.feeds.outfeed import IPUOutfeedMode, Outfeed
from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.graph import Graph, reachable, storage_of
from tensorflow_ipu.frontends.popxl.ir import Ir
from tensorflow_ipu.frontends.popxl.lowering import functions
from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering
from tensorflow_ipu.frontends.popxl.lowering.types import carrier, tf_type
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.frontends.popxl.tensor import Variable

# Elements for each replica that are read before a program asks for them.
_PREFETCH_DEPTH = 3


class Program:
    """What runs when the main graph of an Ir does, on one device.

    Attributes:
        device: The TensorFlow device that it runs on.
        is_sharded: Whether it uses more than one IPU.
    """

    def __init__(self, ir: Ir, ordinal: int) -> None:
        """Puts the graphs into a program; it is compiled when it first runs.

        Args:
            ir: the Ir, which no longer changes.
            ordinal: of the TensorFlow device.
        """
        self._ordinal = ordinal
        self.device = f"/device:IPU:{ordinal}"
        self._ipus = ipus_used(ir)
        self.is_sharded = self._ipus > 1
        self._functions: dict[Graph, functions.GraphFunction] = {}
        self._infeeds: dict[HostToDeviceStream, Infeed] = {}
        self._outfeeds: dict[DeviceToHostStream, Outfeed] = {}
        self._reads: dict[Variable, Any] = {}
        with tf.device(self.device):
            self._variables = {
                variable: tf.Variable(
                    _plain(variable.data), name=_fit(variable.id), dtype=tf_type(variable.dtype)
                )
                for variable in used_variables(ir)
            }
        self._cluster = trace.trace(lambda: self._build(ir.main_graph), [], "popxl")

    def run(self, inputs: Mapping[Any, np.ndarray]) -> dict[Any, np.ndarray]:
        """Runs the program once.

        Args:
            inputs: for each stream its elements, those of the replicas in turn.

        Returns:
            For each stream what was stored, with the replicas in the second dimension if there is
            more than one.

        Raises:
            tf.errors.OutOfRangeError: If the program loads more elements than there are.
        """
        for stream, array in inputs.items():
            data = _plain(array).view(carrier(stream.dtype).as_numpy_dtype)
            self._infeeds[stream].restart(tf.data.Dataset.from_tensor_slices(data))
        try:
            arguments = list(self._cluster.graph.external_captures)
            launch.launch(self._cluster, arguments, self.device)
        finally:
            stored = {stream: feed.dequeue(False) for stream, feed in self._outfeeds.items()}
        return {
            stream: tensors[0].numpy().view(stream.dtype.as_numpy())
            for stream, tensors in stored.items()
        }

    def write_variable(self, variable: Variable, value: np.ndarray) -> None:
        """Gives a variable of the device a value, on all replicas.

        Args:
            variable: the variable; nothing happens for one that the program does not use.
            value: its value.
        """
        if variable in self._variables:
            self._variables[variable].assign(_plain(value))

    def read_back(self, variable: Variable) -> np.ndarray | None:
        """Returns the value of a variable of the device on replica 0.

        Args:
            variable: the variable; None is returned for one that the program does not use.
        """
        if variable not in self._variables:
            return None
        return self._variables[variable].numpy().view(variable.dtype.as_numpy())

    def read_variable(self, variable: Variable) -> Any:
        """Returns the value that a variable has when the program starts."""
        self._reads[variable] = self._variables[variable].read_value()
        return self._reads[variable]

    def function(self, graph: Graph) -> functions.GraphFunction:
        """Returns the function of a graph that is called."""
        if graph not in self._functions:
            self._functions[graph] = functions.make(graph, self)
        return self._functions[graph]

    def infeed(self, stream: HostToDeviceStream) -> Infeed:
        """Returns the feed that brings a stream to the program."""
        if stream not in self._infeeds:
            with tf.init_scope():
                nothing = tf.zeros([1, *stream.shape], carrier(stream.dtype))
                dataset = tf.data.Dataset.from_tensor_slices(nothing)
                self._infeeds[stream] = Infeed(dataset, self._ordinal, _PREFETCH_DEPTH)
        return self._infeeds[stream]

    def outfeed(self, stream: DeviceToHostStream) -> Outfeed:
        """Returns the feed that brings a stream to the host."""
        if stream not in self._outfeeds:
            self._outfeeds[stream] = Outfeed(self._ordinal, IPUOutfeedMode.ALL)
        return self._outfeeds[stream]

    def _build(self, main: Graph) -> tuple[list[Any], list[Any]]:
        """Puts the main graph into the function in scope.

        A variable is written right after the last op that modifies it: what reads it before or
        after takes the values, so it has room for one at any time.
        """
        last = {
            root: op
            for op in main.ops
            for position in op.writes
            for root in storage_of(op.inputs[position])
            if isinstance(root, Variable)
        }
        by_writer: dict[Op, list[Variable]] = {}
        for root, op in last.items():
            by_writer.setdefault(op, []).append(root)
        assignments: list[Any] = []

        def assign(lowering: Lowering, op: Op) -> None:
            for root in by_writer.get(op, []):
                value = lowering.values.read(root)
                read = [self._reads[root].op] if root in self._reads else []
                with tf.control_dependencies(read):
                    assignments.append(self._variables[root].assign(value, read_value=False))

        lowering = Lowering(main, self, assign)
        lowering.run()
        return [], [*lowering.effects, *assignments, *self._mark_last_ipu()]

    def _mark_last_ipu(self) -> list[Any]:
        """Returns an op on the last IPU: a program has it even if nothing uses what is there."""
        if not self.is_sharded:
            return []
        with scopes.ipu_shard(self._ipus - 1):
            return [tf.no_op("last_ipu")]


def ipus_used(ir: Ir) -> int:
    """Returns how many IPUs a replica of an Ir takes: the highest one that an op names, plus 1."""
    ops = itertools.chain.from_iterable(graph.ops for graph in reachable(ir.main_graph))
    return max((ipu for op in ops for ipu in (op.ipu, *op.ipus)), default=0) + 1


def used_variables(ir: Ir) -> list[Variable]:
    """Returns the variables that some op takes; the others are not on the device."""
    return [variable for variable in ir.main_graph.variables if variable.consumers]


def _plain(array: np.ndarray) -> np.ndarray:
    """Returns an array as TensorFlow takes it: codes for 8-bit floats."""
    return array.view("uint8") if array.dtype.names else array


def _fit(name: str) -> str:
    """Returns a name as TensorFlow takes it."""
    return "".join(c if c.isalnum() or c in "_./" else "_" for c in name).lstrip("_./") or "t"
