"""Listing of one function of a compiled program, with the functions it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import tensorflow as tf

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis.flops import flops_of
from tensorflow_ipu.compiler.analysis.trip_count import Trips, trips
from tensorflow_ipu.compiler.analysis.variable_traffic import bytes_of, num_bytes, record_bytes
from tensorflow_ipu.compiler.ir.function_graphs import (
    Binding,
    FunctionImporter,
    binding_of,
    constant_value,
    dimensions,
    invariant_arguments,
    through_identities,
)
from tensorflow_ipu.compiler.ir.node_facts import (
    INHERITED,
    frame_depth,
    function_names,
    ipus_of,
    phase_of,
    stage_of,
)
from tensorflow_ipu.compiler.ir.records import OpRecord, TensorRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tensorflow.core.framework import node_def_pb2

    from tensorflow_ipu.compiler.ir.function_graphs import FunctionGraph
    from tensorflow_ipu.compiler.sources.source_map import Origin


class ListedProgram(Protocol):
    """The listing of the whole program, as the listing of one function uses it."""

    def records(self, name: str, bindings: tuple[Binding, ...]) -> tuple[OpRecord, ...]:
        """Returns the ops of a function and of all functions it runs."""

    def results(self, name: str, bindings: tuple[Binding, ...]) -> Mapping[int, np.ndarray]:
        """Returns the results of a function that are constants, by index, once it was listed."""

    def may_run_functions(self, op: tf.Operation) -> bool:
        """Returns whether ops of this type run functions."""

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op."""


class FunctionLister:
    """Lister of one function.

    Args:
        program: lists the functions that this one runs.
        importer: has their definitions.
        function: the function.
    """

    def __init__(
        self, program: ListedProgram, importer: FunctionImporter, function: FunctionGraph
    ) -> None:
        self._program = program
        self._importer = importer
        self._function = function
        self._sizes: dict[str, int | None] = {
            tensor.name: num_bytes(tensor) for tensor in function.inputs
        }
        # Results of loops (their counters) and calls that are constants, which TensorFlow cannot
        # evaluate: (op, output) -> value.
        self._counters: dict[tuple[str, int], np.ndarray] = {}

    def records(self) -> tuple[OpRecord, ...]:
        """Returns the function's ops, each followed by the ops of the functions it runs."""
        listed: list[OpRecord] = []
        frames: dict[str, int] = {}
        has_frames = any(node.op in op_names.ENTERS for node in self._function.nodes)
        operations = {op.name: op for op in self._function.graph.get_operations()}
        for node in self._function.nodes:
            op = operations[node.name]
            record = self._record(op, node)
            bodies: list[OpRecord] = []
            if op_names.is_loop(node.op):
                loop, bodies = self._loop(op, record)
                record = record._replace(trip_count=loop.count)
            elif op_names.is_conditional(node.op):
                bodies = self._branches(op, record)
            else:
                bodies = self._calls(op, record)
            frame = frame_depth(node, frames) if has_frames else 0
            listed += [record, *bodies] if not frame else _in_frame([record, *bodies], frame)
        return tuple(listed)

    def results(self) -> dict[int, np.ndarray]:
        """Returns the constant results of the function by index."""
        values = enumerate(map(self._constant, self._function.outputs))
        return {index: value for index, value in values if value is not None}

    def _record(self, op: tf.Operation, node: node_def_pb2.NodeDef) -> OpRecord:
        """Describes an op without the functions it runs."""
        outputs = tuple([TensorRecord(t.dtype.name, dimensions(t.shape)) for t in op.outputs])
        results = [record_bytes(tensor) for tensor in outputs]
        for index, size in enumerate(results):
            self._sizes[f"{node.name}:{index}"] = size
        inputs = tuple(name for name in node.input if not name.startswith("^"))
        operands = [self._size(name if ":" in name else name + ":0") for name in inputs]
        read, written = bytes_of(op)
        flops = flops_of(op, node)
        origin = self._program.origin(self._function.name, node.name)
        return OpRecord(
            name=node.name,
            type=node.op,
            function=self._function.name,
            depth=0,
            ipus=ipus_of(node),
            inputs=inputs,
            outputs=outputs,
            bytes_in=_total((*operands, read)),
            bytes_out=_total((*results, written)),
            flops=flops.count,
            flops_label=flops.label,
            source=origin.location,
            stage=stage_of(node),
            phase=phase_of(node),
            original=origin.original,
            keras=origin.keras,
            layer=origin.layer,
        )

    def _size(self, name: str) -> int | None:
        """Returns the bytes of a tensor; cached unless it is on the back edge of a v1 loop."""
        if name in self._sizes:
            return self._sizes[name]
        return num_bytes(self._function.graph.get_tensor_by_name(name))

    def _constant(self, tensor: tf.Tensor) -> np.ndarray | None:
        """Returns the value of a constant, or of a counter when its loop has ended."""
        tensor = through_identities(tensor)
        counter = self._counters.get((tensor.op.name, tensor.value_index))
        return constant_value(tensor) if counter is None else counter

    def _loop(self, op: tf.Operation, record: OpRecord) -> tuple[Trips, list[OpRecord]]:
        """Lists a loop's condition and body, and counts its iterations."""
        condition, body = op.get_attr("cond").name, op.get_attr("body").name
        invariant = invariant_arguments(self._importer.definition(body))
        initial = [self._constant(tensor) for tensor in op.inputs]
        bindings = tuple(
            # Shapes may change between iterations; the loop's results have the invariant
            # dimensions.
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
        if not self._program.may_run_functions(op):
            return []
        bindings = tuple(binding_of(t, self._constant(t)) for t in op.inputs)
        names = function_names(op, self._importer)
        nested = [
            inner
            for name in names
            for inner in self._nested(name, self._fitting(name, bindings), record, 1)
        ]
        if op_names.is_call(op.type) and len(names) == 1:
            known = self._program.results(names[0], self._fitting(names[0], bindings))
            self._counters.update(((op.name, index), value) for index, value in known.items())
        return nested

    def _fitting(self, name: str, bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
        """Returns the bindings, or unknown shapes for an op that computes the arguments itself."""
        arguments = self._importer.definition(name).signature.input_arg
        if len(arguments) == len(bindings):
            return bindings
        return tuple(Binding(tf.as_dtype(argument.type), None) for argument in arguments)

    def _nested(
        self, name: str, bindings: tuple[Binding, ...], caller: OpRecord, runs: int | None
    ) -> list[OpRecord]:
        """Returns the ops of a function, one level deeper than the op that runs it."""
        return [
            record._replace(
                ipus=caller.ipus if record.ipus == INHERITED else record.ipus,
                stage=caller.stage if record.stage is None else record.stage,
                phase=record.phase or caller.phase,
                depth=record.depth + 1,
                runs=None if runs is None or record.runs is None else record.runs * runs,
            )
            for record in self._program.records(name, bindings)
        ]


def placed(record: OpRecord, ipus: tuple[int, ...]) -> OpRecord:
    """Returns a record of the entry, on these IPUs if it names none itself."""
    return record._replace(ipus=ipus) if record.ipus == INHERITED else record


def _in_frame(records: Iterable[OpRecord], frame: int) -> list[OpRecord]:
    """Records inside v1 loops, whose number of iterations is not known."""
    return [record._replace(depth=record.depth + frame, runs=None) for record in records]


def _total(sizes: Iterable[int | None]) -> int | None:
    """Returns a sum, `None` if a summand is."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
