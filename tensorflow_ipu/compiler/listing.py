"""The ops of a compiled program in order, each with its IPU, bytes, work and source line."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Protocol

import numpy as np
import tensorflow as tf

from tensorflow_ipu.compiler.flops import flops_of
from tensorflow_ipu.compiler.function_graphs import (
    Binding,
    FunctionImporter,
    binding_of,
    constant_value,
    dimensions,
    invariant_arguments,
    through_identities,
)
from tensorflow_ipu.compiler.listing_text import format_listing
from tensorflow_ipu.compiler.node_facts import (
    INHERITED,
    frame_depth,
    function_attributes,
    function_names,
    ipus_of,
)
from tensorflow_ipu.compiler.op_record import ArgumentSpec, OpRecord, TensorRecord
from tensorflow_ipu.compiler.trip_count import Trips, trips
from tensorflow_ipu.compiler.variable_traffic import bytes_of, num_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tensorflow.core.framework import function_pb2, node_def_pb2

    from tensorflow_ipu.compiler.function_graphs import FunctionGraph
    from tensorflow_ipu.compiler.source_map import SourceLocation

__all__ = ["ArgumentSpec", "OpRecord", "SourceLookup", "TensorRecord", "format_listing", "list_ops"]

_LOOPS = ("While", "StatelessWhile")
_CONDITIONALS = ("If", "StatelessIf", "Case", "StatelessCase")


class SourceLookup(Protocol):
    """What a listing asks for source locations; `source_map.SourceMap` is one."""

    def lookup(self, function: str, node: str) -> SourceLocation | None:
        """Returns where an op of a function was made, `None` when unknown."""


def list_ops(
    library: function_pb2.FunctionDefLibrary,
    entry: str,
    inputs: Sequence[ArgumentSpec],
    sources: SourceLookup | None = None,
) -> tuple[OpRecord, ...]:
    """Lists the ops of a compiled program.

    The order is topological within each function, ties in the order of the definition, with the
    ops of loops, branches and calls right after the op that runs them. A function called twice is
    listed twice.

    Args:
        library: the program's functions.
        entry: name of the function that is the program.
        inputs: one description for each argument of the entry, captures included.
        sources: where to ask for source locations.

    Returns:
        The ops.

    Raises:
        ValueError: a function is missing or calls itself, `inputs` do not fit the entry, or the
            shapes contradict each other.
    """
    bindings = tuple(
        Binding(tf.as_dtype(spec.dtype), tuple(spec.shape), spec.is_variable)
        for spec in inputs
    )
    with _without_collections():
        lister = _Lister(FunctionImporter(library), sources)
        return tuple(_placed(record, (0,)) for record in lister.records(entry, bindings))


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Puts off Python's cycle collector, which takes a third of the time of a large listing.

    A listing makes many objects that live until its end, so there is nothing to collect.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Lister:
    """Lists functions, each once for a combination of bindings.

    Records of a function are kept as if it were the entry, on inherited IPUs where an op follows
    its caller; `_nested` fits them into the caller.
    """

    def __init__(self, importer: FunctionImporter, sources: SourceLookup | None) -> None:
        self._importer = importer
        self._sources = sources
        self._known: dict[tuple[str, tuple[Binding, ...]], tuple[OpRecord, ...]] = {}
        self._running: list[str] = []
        self._runs_functions: dict[str, bool] = {}

    def records(self, name: str, bindings: tuple[Binding, ...]) -> tuple[OpRecord, ...]:
        """Returns the ops of a function and of all functions it runs."""
        key = (name, bindings)
        if key in self._known:
            return self._known[key]
        if name in self._running:
            raise ValueError(
                f"Expected a program without recursion, received function {name!r} that calls "
                f"itself through {self._running}. An IPU program has no call stack; use a loop."
            )
        self._running.append(name)
        listed = _Function(self, self._importer, self._importer.graph(name, bindings)).records()
        self._running.pop()
        self._known[key] = listed
        return listed

    def may_run_functions(self, op: tf.Operation) -> bool:
        """Whether ops of this type run functions; asked for every op, so remembered."""
        if op.type not in self._runs_functions:
            called = op.type in self._importer
            self._runs_functions[op.type] = called or bool(function_attributes(op))
        return self._runs_functions[op.type]

    def source(self, function: str, node: str) -> SourceLocation | None:
        """Where an op was made."""
        return None if self._sources is None else self._sources.lookup(function, node)


class _Function:
    """Lists one function."""

    def __init__(
        self, lister: _Lister, importer: FunctionImporter, function: FunctionGraph
    ) -> None:
        self._lister = lister
        self._importer = importer
        self._function = function
        self._sizes: dict[str, int | None] = {
            tensor.name: num_bytes(tensor) for tensor in function.inputs
        }
        # Final values of loop counters, which TensorFlow cannot evaluate: (loop, output) -> value.
        self._counters: dict[tuple[str, int], np.ndarray] = {}

    def records(self) -> tuple[OpRecord, ...]:
        """Returns the function's ops and those of the functions they run."""
        listed: list[OpRecord] = []
        frames: dict[str, int] = {}
        has_frames = any(node.op in ("Enter", "RefEnter") for node in self._function.nodes)
        for node in self._function.nodes:
            op = self._function.graph.get_operation_by_name(node.name)
            record = self._record(op, node)
            bodies: list[OpRecord] = []
            if node.op in _LOOPS:
                loop, bodies = self._loop(op, record)
                record = record._replace(trip_count=loop.count)
            elif node.op in _CONDITIONALS:
                bodies = self._branches(op, record)
            else:
                bodies = self._calls(op, record)
            frame = frame_depth(node, frames) if has_frames else 0
            listed += [record, *bodies] if not frame else _in_frame([record, *bodies], frame)
        return tuple(listed)

    def _record(self, op: tf.Operation, node: node_def_pb2.NodeDef) -> OpRecord:
        """Describes an op without the functions it runs."""
        outputs = op.outputs
        results = [num_bytes(tensor) for tensor in outputs]
        for index, size in enumerate(results):
            self._sizes[f"{node.name}:{index}"] = size
        inputs = tuple(name for name in node.input if not name.startswith("^"))
        operands = [self._size(name if ":" in name else name + ":0") for name in inputs]
        read, written = bytes_of(op)
        flops = flops_of(op, node)
        return OpRecord(
            name=node.name,
            type=node.op,
            function=self._function.name,
            depth=0,
            ipus=ipus_of(node),
            inputs=inputs,
            outputs=tuple(TensorRecord(t.dtype.name, dimensions(t.shape)) for t in outputs),
            bytes_in=_total((*operands, read)),
            bytes_out=_total((*results, written)),
            flops=flops.count,
            flops_label=flops.label,
            source=self._lister.source(self._function.name, node.name),
        )

    def _size(self, name: str) -> int | None:
        """Bytes of a tensor; remembered unless it comes along the back edge of a v1 loop."""
        if name in self._sizes:
            return self._sizes[name]
        return num_bytes(self._function.graph.get_tensor_by_name(name))

    def _constant(self, tensor: tf.Tensor) -> np.ndarray | None:
        """The value of a constant, or of a counter when its loop has ended."""
        tensor = through_identities(tensor)
        counter = self._counters.get((tensor.op.name, tensor.value_index))
        return constant_value(tensor) if counter is None else counter

    def _loop(self, op: tf.Operation, record: OpRecord) -> tuple[Trips, list[OpRecord]]:
        """Lists a loop's condition and body, and counts its iterations."""
        condition, body = op.get_attr("cond").name, op.get_attr("body").name
        invariant = invariant_arguments(self._importer.definition(body))
        initial = [self._constant(tensor) for tensor in op.inputs]
        bindings = tuple(
            # Shapes may change between iterations; the loop's results have what always holds.
            binding_of(before, initial[index])
            if index in invariant or before.dtype in (tf.resource, tf.variant)
            else binding_of(after if after.shape.rank is not None else before)
            for index, (before, after) in enumerate(zip(op.inputs, op.outputs))
        )
        loop = trips(
            self._importer.graph(condition, bindings),
            self._importer.graph(body, bindings),
            initial,
        )
        for index, value in loop.counters.items():
            dtype = op.outputs[index].dtype.as_numpy_dtype
            self._counters[op.name, index] = np.asarray(value, dtype)
        checks = None if loop.count is None else loop.count + 1
        bodies = [
            *self._nested(condition, bindings, record, checks),
            *self._nested(body, bindings, record, loop.count),
        ]
        return loop, bodies

    def _branches(self, op: tf.Operation, record: OpRecord) -> list[OpRecord]:
        """Lists all branches of a conditional."""
        bindings = tuple(binding_of(t, self._constant(t)) for t in op.inputs[1:])
        return [
            nested._replace(conditional=True)
            for name in function_names(op, self._importer)
            for nested in self._nested(name, bindings, record, 1)
        ]

    def _calls(self, op: tf.Operation, record: OpRecord) -> list[OpRecord]:
        """Lists the functions that any other op runs."""
        if not self._lister.may_run_functions(op):
            return []
        bindings = tuple(binding_of(t, self._constant(t)) for t in op.inputs)
        return [
            nested
            for name in function_names(op, self._importer)
            for nested in self._nested(name, self._fitting(name, bindings), record, 1)
        ]

    def _fitting(self, name: str, bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
        """The bindings, or unknown shapes for an op that does not just pass its inputs on."""
        arguments = self._importer.definition(name).signature.input_arg
        if len(arguments) == len(bindings):
            return bindings
        return tuple(Binding(tf.as_dtype(argument.type), None) for argument in arguments)

    def _nested(
        self, name: str, bindings: tuple[Binding, ...], caller: OpRecord, runs: int | None
    ) -> list[OpRecord]:
        """The ops of a function, one level deeper than the op that runs it."""
        return [
            _placed(record, caller.ipus)._replace(
                depth=record.depth + 1,
                runs=None if runs is None or record.runs is None else record.runs * runs,
            )
            for record in self._lister.records(name, bindings)
        ]


def _placed(record: OpRecord, ipus: tuple[int, ...]) -> OpRecord:
    """A record on the IPUs of its caller, unless it has its own."""
    return record._replace(ipus=ipus) if record.ipus == INHERITED else record


def _in_frame(records: Iterable[OpRecord], frame: int) -> list[OpRecord]:
    """Records inside v1 loops, whose number of iterations is not known."""
    return [record._replace(depth=record.depth + frame, runs=None) for record in records]


def _total(sizes: Iterable[int | None]) -> int | None:
    """A sum, `None` if a part is."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
