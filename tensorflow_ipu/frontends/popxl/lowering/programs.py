"""`LoweredProgram`: the main graph as a Cluster, and its compiled form in files of a cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import fingerprint, launch, requests, source_map, store, trace
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir import program as ir_program
from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed
from tensorflow_ipu.frontends.common import abstract_arrays, executable_cache
from tensorflow_ipu.frontends.popxl.dtypes import plain, tf_type
from tensorflow_ipu.frontends.popxl.ir import Graph, Ir, Op
from tensorflow_ipu.frontends.popxl.lowering import analysis, graphs, hints, transfers, weights
from tensorflow_ipu.frontends.popxl.lowering.analysis import Places
from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.frontends.popxl.tensor import Tensor, Variable
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext
from tensorflow_ipu.util import archives, private_files

# What a launch of a program with several parts does, and its number.
_PARTS = (
    ExecutionContext.Normal,
    ExecutionContext.WeightsFromHostFragment,
    ExecutionContext.WeightsToHostFragment,
)


class LoweredProgram:
    """The TensorFlow program of an Ir's main graph on one device.

    Attributes:
        device: The TensorFlow device that it runs on.
        is_sharded: Whether it uses more than one IPU.
        places: The IPUs that tensors are on.
    """

    def __init__(self, ir: Ir, ordinal: int) -> None:
        """Puts the graphs into a program; it is compiled when it first runs.

        Args:
            ir: the Ir, which no longer changes.
            ordinal: of the TensorFlow device.
        """
        self._ordinal = ordinal
        self.device = f"/device:IPU:{ordinal}"
        self._ipus = analysis.ipus_used(ir)
        self.is_sharded = self._ipus > 1
        self.places = Places()
        self._functions: dict[Graph, graphs.GraphFunction] = {}
        self._infeeds: dict[HostToDeviceStream, ArrayInfeed] = {}
        self._outfeeds: dict[DeviceToHostStream, ArrayOutfeed] = {}
        self._reads: dict[Tensor, Any] = {}
        self._start: list[Any] = []
        used = analysis.used_variables(ir)
        different = [variable for variable in used if weights.needs_lanes(variable)]
        self._weights = weights.Weights(different, ordinal) if different else None
        with tf.device(self.device):
            self._remote = {b: transfers.RemoteMemory(b) for b in analysis.used_buffers(ir)}
            self._state = {
                tensor: _variable(tensor)
                for tensor in (*used, *analysis.kept_tensors(ir.main_graph))
            }
        self._has_parts = bool(different) or any(
            op.execution_context in _PARTS[1:] for op in ir.main_graph.ops
        )
        self._numbers = {part: [tf.constant(i)] * self._has_parts for i, part in enumerate(_PARTS)}
        self._cluster = self._trace(ir.main_graph)
        self._captured = list(self._cluster.graph.external_captures)
        self._is_checked = False
        self._lock = threading.Lock()  # for runs of several threads, which share the feeds

    def run(
        self,
        inputs: Mapping[HostToDeviceStream, np.ndarray],
        outputs: Mapping[DeviceToHostStream, np.ndarray],
    ) -> dict[DeviceToHostStream, int]:
        """Runs the program once.

        Args:
            inputs: for each stream its elements, those of the replicas in turn.
            outputs: for each stream an array in C order for its elements, those of the replicas in
                turn.

        Returns:
            For each stream how many elements each replica has stored. If these are more than the
            array is for, it stays as it was.

        Raises:
            tf.errors.OutOfRangeError: If the program loads more elements than there are.
        """
        with self._lock:
            for stream, infeed in self._infeeds.items():
                infeed.fill(len(inputs[stream]), [inputs[stream]])
            try:
                self._launch(ExecutionContext.Normal)
            except BaseException:
                for outfeed in self._outfeeds.values():
                    outfeed.drop()
                raise
            return {
                stream: outfeed.take(len(outputs[stream]), [outputs[stream]])
                for stream, outfeed in self._outfeeds.items()
            }

    def write_variables(self) -> None:
        """Brings the host's values to the variables that it uses, and runs the ops for that.

        In a process that only plans, no values are brought.
        """
        plans_only = abstract_arrays.plans_only()
        for variable in [] if plans_only else self._plain_variables():
            value = tf.constant(plain(variable.data))  # a copy: the host's may change
            tf.raw_ops.AssignVariableOp(resource=self._state[variable].handle, value=value)
        if self._has_parts:
            if self._weights is not None and not plans_only:
                self._weights.put()
            self._launch(ExecutionContext.WeightsFromHostFragment)

    def read_variables(self) -> dict[Variable, np.ndarray]:
        """Runs the ops for that, and returns the values of the variables that it uses.

        Returns:
            The value of each on replica 0; for those whose values differ between replicas what
            each replica has, in their order.
        """
        found: dict[Variable, np.ndarray] = {}
        if self._has_parts:
            self._launch(ExecutionContext.WeightsToHostFragment)
            if self._weights is not None:
                found = self._weights.take()
        for variable in self._plain_variables():
            state = self._state[variable]
            value = tf.raw_ops.ReadVariableOp(resource=state.handle, dtype=state.dtype)
            found[variable] = np.asarray(memoryview(value)).view(variable.dtype.as_numpy())
        return found

    @property
    def cluster(self) -> Cluster:
        """The program as it is compiled."""
        return self._cluster

    def read_state(self, tensor: Tensor) -> Any:
        """Returns the value of a persistent tensor at the start of the program."""
        with tf.control_dependencies(self._start):
            self._reads[tensor] = self._state[tensor].read_value()
        return self._reads[tensor]

    def remote(self, buffer: RemoteBuffer) -> transfers.RemoteMemory:
        """Returns the device memory of a remote buffer."""
        return self._remote[buffer]

    def function(self, graph: Graph) -> graphs.GraphFunction:
        """Returns the function of a graph that is called."""
        if graph not in self._functions:
            self._functions[graph] = graphs.make_function(graph, self)
        return self._functions[graph]

    def infeed(self, stream: HostToDeviceStream) -> ArrayInfeed:
        """Returns the feed that brings a stream to the program."""
        if stream not in self._infeeds:
            spec = tf.TensorSpec(stream.shape, tf_type(stream.dtype))
            self._infeeds[stream] = ArrayInfeed([spec], self._ordinal)
        return self._infeeds[stream]

    def outfeed(self, stream: DeviceToHostStream) -> ArrayOutfeed:
        """Returns the feed that brings a stream to the host."""
        if stream not in self._outfeeds:
            self._outfeeds[stream] = ArrayOutfeed(self._ordinal)
        return self._outfeeds[stream]

    def _plain_variables(self) -> list[Variable]:
        """The variables of which the host and all replicas have one value."""
        return [
            tensor
            for tensor in self._state
            if isinstance(tensor, Variable) and not weights.needs_lanes(tensor)
        ]

    def _launch(self, part: ExecutionContext) -> None:
        """Runs the program, or one of its parts."""
        arguments = [*self._numbers[part], *self._captured]
        launch.launch(self._cluster, arguments, self.device, check=not self._is_checked)
        self._is_checked = True

    def _trace(self, main: Graph) -> Cluster:
        """Puts the main graph into a Cluster.

        What replicas have in variables stays on the device from launch to launch of one program
        only. So the parts that run when values come from the host and go there, if there are any,
        are in the same program, which takes the number of the part to run.
        """
        if not self._has_parts:
            return trace.trace(lambda: ([], self._build(main, _PARTS[0])), [], "popxl")

        def whole(number: Any) -> tuple[list[Any], list[Any]]:
            def branch(part: ExecutionContext) -> Any:
                def run() -> Any:
                    moves = contextlib.nullcontext() if part is _PARTS[0] else weights.moving()
                    with moves, tf.control_dependencies(self._build(main, part)):
                        return tf.constant(0)

                return run

            done = tf.switch_case(number, [branch(part) for part in _PARTS], name="parts")
            source_map.declare(done.graph, "parts", None, "")
            return [], [done.op]

        return trace.trace(whole, [tf.constant(0)], "popxl")

    def _build(self, main: Graph, part: ExecutionContext) -> list[Any]:
        """Puts a part of the main graph into the function in scope.

        What lasts is written right after the last op that modifies it: what reads it before or
        after takes the values, so it has room for one at any time.

        Args:
            main: the main graph.
            part: which of its ops.

        Returns:
            The operations that have to run.
        """
        ops = [op for op in main.ops if op.execution_context is part]
        by_writer: dict[Op, list[Tensor]] = {}
        for tensor, op in analysis.last_writers(ops, self._state).items():
            by_writer.setdefault(op, []).append(tensor)
        assignments: list[Any] = []

        def assign(lowering: GraphLowering, op: Op) -> None:
            for tensor in by_writer.get(op, []):
                value = lowering.values.read(tensor)
                read = [self._reads[tensor].op] if tensor in self._reads else []
                with tf.control_dependencies(read), lowering.beside(tensor):
                    assignments.append(self._state[tensor].assign(value, read_value=False))

        self._reads = {}
        self._start = self._receive() if part is _PARTS[1] else []
        lowering = GraphLowering(main, self, assign)
        lowering.effects = list(self._start)
        lowering.run(ops)
        done = [*lowering.effects, *assignments]
        if part is _PARTS[2] and self._weights is not None:
            done = [self._send(self._weights, done)]
        if part is _PARTS[0]:
            done.append(hints.settings(main.ir.session_options.planned()))
        return [*done, *self._mark_last_ipu()]

    def _receive(self) -> list[Any]:
        """Takes values from the host; returns the operations that write them."""
        if self._weights is None:
            return []
        written = []
        for variable, value in zip(self._weights.variables, self._weights.receive()):
            if variable.entry is None:
                written.append(self._state[variable].assign(value, read_value=False))
            else:
                buffer, entry = variable.entry
                written.append(self._remote[buffer].store(tf.constant(entry), value))
        return written

    def _send(self, sent: weights.Weights, after: list[Any]) -> Any:
        """Sends values to the host."""
        values = []
        with tf.control_dependencies(after):
            for variable in sent.variables:
                if variable.entry is None:
                    values.append(self._state[variable].read_value())
                else:
                    buffer, entry = variable.entry
                    values.append(self._remote[buffer].load(tf.constant(entry)))
            return sent.send(values)

    def _mark_last_ipu(self) -> list[Any]:
        """Adds an op on the last IPU, so that the program has this IPU even without a use."""
        if not self.is_sharded:
            return []
        with scopes.ipu_shard(self._ipus - 1):
            return [tf.no_op("last_ipu")]


def _variable(tensor: Tensor) -> tf.Variable:
    """Makes the variable of the device for a tensor that lasts, on the device in scope."""
    dtype, name = tf_type(tensor.dtype), _fit(tensor.id)
    is_planned = abstract_arrays.plans_only()
    if isinstance(tensor, Variable) and not (is_planned or weights.needs_lanes(tensor)):
        return tf.Variable(plain(tensor.data), name=name, dtype=dtype)
    return tf.Variable(tf.zeros(tensor.shape, dtype), name=name)


def _fit(name: str) -> str:
    """Returns a name as TensorFlow takes it."""
    return "".join(c if c.isalnum() or c in "_./" else "_" for c in name).lstrip("_./") or "t"


_MEMBER = "popxl.json"


def prepare_cached(
    cluster: Cluster, ordinal: int, folder: str, described: str
) -> tuple[Executable, bool]:
    """Compiles a program, and keeps it in a cache unless it is there.

    Args:
        cluster: the program.
        ordinal: of the TensorFlow device.
        folder: of the cache; made if it is missing.
        described: the device and the options that the program depends on.

    Returns:
        The compiled program, and whether it was in the cache.

    Raises:
        OSError: If the file cannot be written.
        tf.errors.OpError: As at the first run of a program.
    """
    traced = ir_program.Program.from_library(cluster.library(), cluster.entry)
    digest = hashlib.sha256(
        fingerprint.fingerprint(traced, described.encode()).encode()
    ).hexdigest()

    def check(path: Path) -> None:
        with archives.reading(path, "an executable of a session of PopXL") as archive:
            found = archives.read_json(archive, _MEMBER).get("program")
            if found != digest:
                raise ValueError(f"it is that of another program, {found}")

    entry = executable_cache.Entry(folder, digest)
    is_there = entry.is_there(check)
    if not is_there:
        executable_cache.log_compiling()
    executable, _ = requests.compile_ahead(cluster, ordinal)
    if not is_there:
        private_files.make_folder(folder)
        store.save(executable, entry.path, {_MEMBER: json.dumps({"program": digest}).encode()})
    return executable, is_there
