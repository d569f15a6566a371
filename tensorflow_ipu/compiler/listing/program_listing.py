"""Listing of a compiled program in order: IPU, bytes, work and source line of each op."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2

from tensorflow_ipu.compiler.analysis.op_work import bytes_of, flops_of, num_bytes, record_bytes
from tensorflow_ipu.compiler.ir.function_graphs import (
    Binding,
    FunctionImporter,
    Trips,
    binding_of,
    constant_value,
    dimensions,
    invariant_arguments,
    through_identities,
    trips,
)
from tensorflow_ipu.compiler.ir.program import PHASE_ATTRIBUTE, STAGE_ATTRIBUTE
from tensorflow_ipu.compiler.ir.records import ArgumentSpec, OpRecord, TensorRecord
from tensorflow_ipu.compiler.source_map import NOWHERE, Origin
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.gc_pause import without_collections
from tensorflow_ipu.util.text import aligned, human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tensorflow.core.framework import function_pb2, node_def_pb2

    from tensorflow_ipu.compiler.ir.function_graphs import FunctionGraph, FunctionImporter
    from tensorflow_ipu.compiler.source_map import Origin

__all__ = ["ArgumentSpec", "OpRecord", "SourceLookup", "TensorRecord", "format_listing", "list_ops"]


# --- Facts of a single node: its IPUs, enclosing loops, functions it runs ---

# Stands for the IPUs of the op that runs the function, until that is known.
INHERITED = (-1,)


def frame_depth(node: node_def_pb2.NodeDef, frames: dict[str, int]) -> int:
    """Returns the number of TensorFlow 1 loops around a node, from `Enter` and `Exit` nodes.

    Args:
        node: a node whose inputs have been asked for before, except for back edges.
        frames: the depth behind each node, extended by this one.
    """
    inputs = (name.lstrip("^").split(":")[0] for name in node.input)
    depth = max((frames.get(name, 0) for name in inputs), default=0)
    frames[node.name] = depth - (node.op in op_names.EXITS)
    if node.op in op_names.ENTERS:
        frames[node.name] = depth = depth + 1
    return depth


def function_attributes(op: tf.Operation) -> list[str]:
    """Returns the names of the attributes of an op that hold functions."""
    return [a.name for a in op.op_def.attr if a.type in ("func", "list(func)")]


def function_names(op: tf.Operation, importer: FunctionImporter) -> list[str]:
    """Returns the callees of an op, in the order of its attributes."""
    names = [op.type] if op.type in importer else []
    for attribute in function_attributes(op):
        value = op.get_attr(attribute)
        names += [f.name for f in (value if isinstance(value, list) else [value])]
    return [name for name in names if name in importer]


def ipus_of(node: node_def_pb2.NodeDef) -> tuple[int, ...]:
    """Returns the IPUs a node asks for, none for the host."""
    if "_xla_outside_compilation" in node.attr:
        return ()
    if "_XlaSharding" in node.attr:
        return _sharding_devices(node.attr["_XlaSharding"].s)
    return INHERITED


@lru_cache(maxsize=1024)
def _sharding_devices(sharding: bytes) -> tuple[int, ...]:
    """Returns the devices of a serialised `OpSharding`; none if it requests none."""
    parsed = xla_data_pb2.OpSharding.FromString(sharding)
    return tuple(parsed.tile_assignment_devices) or INHERITED


def stage_of(node: node_def_pb2.NodeDef) -> int | None:
    """Returns the pipeline stage a node is in, `None` when it names none."""
    return node.attr[STAGE_ATTRIBUTE].i if STAGE_ATTRIBUTE in node.attr else None


def phase_of(node: node_def_pb2.NodeDef) -> str:
    """Returns the pipeline phase a node is part of, empty when it does not say."""
    return node.attr[PHASE_ATTRIBUTE].s.decode() if PHASE_ATTRIBUTE in node.attr else ""


# --- Text of a listing ---

_FLOPS_MARKS = {"exact": "", "modelled": "~", "assumed": "?"}
_TYPES_SHOWN = 8


class WorkTotal(NamedTuple):
    """The floating-point operations of one launch of a program on one replica.

    Args:
        flops: their number. Ops in loops of unknown trip count are counted as if run once, all
            branches as if taken.
        modelled: The modelled part of them.
        assumed: The assumed part of them.
        without_formula: types of the ops that have no formula, with how many ops of each there are.
        unknown_loops: number of loops whose trip count is not a constant.
        conditional: whether any op is in a branch.
    """

    flops: int
    modelled: int
    assumed: int
    without_formula: dict[str, int]
    unknown_loops: int
    conditional: bool


def work_total(records: Iterable[OpRecord]) -> WorkTotal:
    """Adds up the work of a listing.

    Args:
        records: the ops of a program.

    Returns:
        The total, each op multiplied by its number of executions.
    """
    by_label: Counter[str] = Counter()
    without: Counter[str] = Counter()
    unknown_loops = 0
    conditional = False
    for record in records:
        conditional = conditional or record.conditional
        if record.flops is None:
            without[record.type] += 1
        else:
            by_label[record.flops_label] += record.flops * _runs(record)
        if op_names.is_loop(record.type) and record.trip_count is None:
            unknown_loops += 1
        unknown_loops += record.type == "LoopCond"
    return WorkTotal(
        sum(by_label.values()),
        by_label["modelled"],
        by_label["assumed"],
        dict(sorted(without.items())),
        unknown_loops,
        conditional,
    )


def format_listing(records: Sequence[OpRecord]) -> str:
    """Returns a listing as an aligned table with totals.

    Args:
        records: the ops of a program, in order.

    Returns:
        One line for each op under a heading, then the totals. The pipeline stages have a column
        where there are any.
    """
    rows: list[tuple[str, ...]] = [("IPU", "op", "name", "in", "out", "flops", "source")]
    rows += [_row(record) for record in records]
    if any(record.stage is not None or record.phase for record in records):
        stages = ["stage", *(_stage(record) for record in records)]
        rows = [(*row[:-1], stage, row[-1]) for row, stage in zip(rows, stages)]
    return "\n".join([*aligned(rows, right=(0, 3, 4, 5)), "", *_totals(records)])


def _runs(record: OpRecord) -> int:
    """Returns the executions by which an op is counted."""
    return 1 if record.runs is None else record.runs


def _row(record: OpRecord) -> tuple[str, ...]:
    """Returns the cells of an op's row."""
    op_type = "  " * record.depth + record.type
    if record.trip_count is not None:
        op_type += f" x{record.trip_count}"
    flops = human_count(record.flops)
    return (
        ",".join(map(str, record.ipus)) or "host",
        op_type,
        record.name,
        human_bytes(record.bytes_in),
        human_bytes(record.bytes_out),
        _FLOPS_MARKS.get(record.flops_label, "") + flops,
        "" if record.source is None else str(record.source),
    )


def _stage(record: OpRecord) -> str:
    """Returns the cell of an op's pipeline stage and phase, as in `2 backward`."""
    return f"{'' if record.stage is None else record.stage} {record.phase}".strip()


def _totals(records: Sequence[OpRecord]) -> list[str]:
    """Returns the lines below the table."""
    total = work_total(records)
    types = Counter(record.type for record in records)
    shown = [f"{count} {name}" for name, count in types.most_common(_TYPES_SHOWN)]
    rest = len(types) - len(shown)
    lines = [
        f"ops: {len(records)} ({', '.join(shown)}{f', {rest} other types' if rest else ''})",
        f"flops of one launch: {human_count(total.flops)} ({human_count(total.modelled)} of them "
        f"modelled ~, {human_count(total.assumed)} assumed ?)",
    ]
    if total.without_formula:
        missing = ", ".join(f"{count} {name}" for name, count in total.without_formula.items())
        number = sum(total.without_formula.values())
        lines.append(f"not in that number: {number} ops that have no formula ({missing})")
    else:
        lines.append("every op has a formula")
    if total.unknown_loops:
        lines.append(f"counted as one iteration: {total.unknown_loops} loops of unknown trip count")
    if total.conditional:
        lines.append("counted as taken: every branch of every conditional")
    return lines


# --- Listing of one function ---


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


# --- Listing of a program ---


class SourceLookup(Protocol):
    """Interface for the origins of ops in a listing; `source_map.SourceMap` has it."""

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op of a function."""


def list_ops(
    library: function_pb2.FunctionDefLibrary,
    entry: str,
    inputs: Sequence[ArgumentSpec],
    sources: SourceLookup | None = None,
    importer: FunctionImporter | None = None,
) -> tuple[OpRecord, ...]:
    """Lists the ops of a compiled program.

    The order is topological within each function, ties in the order of the definition, with the
    ops of loops, branches and calls right after the op that runs them. A function called twice is
    listed twice.

    Args:
        library: the program's functions.
        entry: name of the function that is the program.
        inputs: one description for each argument of the entry, captures included.
        sources: where to ask for the origins of ops.
        importer: imports the functions of the library; to be given when others need it too.

    Returns:
        The ops.

    Raises:
        ValueError: a function is missing or calls itself, `inputs` do not fit the entry, or the
            shapes contradict each other.
    """
    bindings = tuple(
        Binding(tf.as_dtype(spec.dtype), tuple(spec.shape), spec.is_variable) for spec in inputs
    )
    with without_collections():
        lister = _Lister(importer or FunctionImporter(library), sources)
        return tuple(placed(record, (0,)) for record in lister.records(entry, bindings))


class _Lister:
    """Lister of functions, with a cache by combination of bindings.

    Records of a function are kept as if it were the entry, on inherited IPUs where an op follows
    its caller; `FunctionLister` fits them into the caller.
    """

    def __init__(self, importer: FunctionImporter, sources: SourceLookup | None) -> None:
        self._importer = importer
        self._sources = sources
        self._known: dict[tuple[str, tuple[Binding, ...]], tuple[OpRecord, ...]] = {}
        self._results: dict[tuple[str, tuple[Binding, ...]], dict[int, np.ndarray]] = {}
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
        function = self._importer.graph(name, bindings)
        lister = FunctionLister(self, self._importer, function)
        self._known[key] = listed = lister.records()
        self._results[key] = lister.results()
        self._running.pop()
        return listed

    def results(self, name: str, bindings: tuple[Binding, ...]) -> dict[int, np.ndarray]:
        """Returns the results of a listed function that are constants, by index."""
        return self._results.get((name, bindings), {})

    def may_run_functions(self, op: tf.Operation) -> bool:
        """Returns whether ops of this type run functions, cached."""
        if op.type not in self._runs_functions:
            called = op.type in self._importer
            self._runs_functions[op.type] = called or bool(function_attributes(op))
        return self._runs_functions[op.type]

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op."""
        return NOWHERE if self._sources is None else self._sources.origin(function, node)
