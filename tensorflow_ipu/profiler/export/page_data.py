"""`page_data`: all that the HTML page of a report shows, as compact tables for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.costs import intervals
from tensorflow_ipu.planner.details import Details, group, groups_of_buffers
from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.memory.details import MemoryDetails
from tensorflow_ipu.planner.plan import IpuMemory, Plan
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.time.items import CHIP_KINDS, IDLE
from tensorflow_ipu.planner.workload import Op, Operand, Workload
from tensorflow_ipu.profiler.breakdown import NO_LAYER
from tensorflow_ipu.profiler.report_data import ReportData
from tensorflow_ipu.profiler.views import trees
from tensorflow_ipu.profiler.views.operations import BOUNDS, FORWARD, Operation
from tensorflow_ipu.profiler.views.spans import MOST_SPANS, IpuSpans, LayerSpan, Span
from tensorflow_ipu.profiler.views.trees import LayerNode, ProgramNode, path

# Digits of cycles and rates after the point: a hundredth of a cycle is nothing.
_DIGITS = 2


class Texts:
    """Distinct texts by their positions."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def of(self, text: str) -> int:
        """Returns the position of a text."""
        return self._found.setdefault(text, len(self._found))

    def column(self, texts: Iterable[str]) -> list[int]:
        """Returns the positions of texts."""
        return [self._found.setdefault(text, len(self._found)) for text in texts]

    def all(self) -> list[str]:
        """Returns all texts."""
        return list(self._found)


def columns(
    kind: type[tuple[Any, ...]],
    rows: Sequence[Any],
    texts: Texts,
    named: Sequence[str] = (),
    without: Sequence[str] = (),
) -> dict[str, list[Any]]:
    """Returns named tuples of one type as one list for each field.

    Args:
        kind: the type.
        rows: the tuples.
        texts: receives the texts of some fields.
        named: fields that become positions in `texts`.
        without: fields that are left out.
    """
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    found = {}
    for name, column in zip(names, list(zip(*rows)) or [()] * len(names)):
        if name not in without:
            found[name] = texts.column(column) if name in named else rounded(column)
    return found


def rounded(column: Iterable[Any]) -> list[Any]:
    """Returns values for JSON, fractions to their significant digits; small ones keep 4 digits."""
    return [_round(value) if type(value) is float else value for value in column]


def _round(value: float) -> float | int:
    """Returns a number rounded to its significant digits."""
    if abs(value) < 1:
        return float(f"{value:.4g}")
    short = round(value, _DIGITS)
    return int(short) if short == int(short) else short


def runs(values: np.ndarray) -> list[int]:
    """Returns numbers as `[value, count, value, count, ...]`.

    Args:
        values: whole numbers.
    """
    if not len(values):
        return []
    starts = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    counts = np.diff(np.append(starts, len(values)))
    found: list[int] = np.stack([values[starts], counts], axis=1).reshape(-1).tolist()
    return found


# --- Ops and tensors ---


def op_table(
    workload: Workload, rows: Sequence[Operation], layers: Mapping[str, int], texts: Texts
) -> dict[str, list[Any]]:
    """Returns all ops of a program as columns.

    Args:
        workload: the program.
        rows: its operations with their cycles.
        layers: positions of its layers.
        texts: receives the texts.
    """
    ops = workload.ops
    of_op: dict[int, int] = {}
    for position, row in enumerate(rows):
        for op in (*row.fused, *(() if row.op is None else (row.op,))):
            of_op.setdefault(op, position)
    types = _Types(texts)
    return {
        "name": [op.name for op in ops],
        "type": texts.column(op.type for op in ops),
        "layer": [layers[path(group(op) or NO_LAYER)] for op in ops],
        "ipu": [op.ipu for op in ops],
        "stage": [op.stage for op in ops],
        "phase": texts.column(op.phase or FORWARD for op in ops),
        "runs": [op.runs for op in ops],
        "trip_count": [op.trip_count for op in ops],
        "end": [op.end for op in ops],
        "branch": [op.branch for op in ops],
        "source": texts.column(op.source for op in ops),
        "flops": [op.flops for op in ops],
        "label": texts.column(op.label.value for op in ops),
        "inputs": [types.operands(op.inputs) for op in ops],
        "outputs": [types.operands(op.outputs) for op in ops],
        "row": [of_op.get(index) for index in range(len(ops))],
    }


def tensor_table(
    workload: Workload, layers: Mapping[str, int], texts: Texts
) -> dict[str, list[Any]]:
    """Returns all tensors of a program that take memory as columns.

    Args:
        workload: the program.
        layers: positions of its layers.
        texts: receives the texts.
    """
    buffers, groups = workload.buffers, groups_of_buffers(workload)
    variables = [None if b.variable is None else workload.variables[b.variable] for b in buffers]
    makers, users = _accesses(workload)
    sources = [_source(workload, maker, using) for maker, using in zip(makers, users)]
    return {
        "name": [buffer.name for buffer in buffers],
        "dtype": texts.column(buffer.dtype for buffer in buffers),
        "shape": [_shape(buffer.shape, buffer.entries) for buffer in buffers],
        "bytes": [buffer.num_bytes for buffer in buffers],
        "kind": texts.column(buffer.kind for buffer in buffers),
        "ipu": [buffer.ipu for buffer in buffers],
        "maker": makers,
        "users": users,
        "layer": [layers.get(path(groups.get(i, NO_LAYER))) for i in range(len(buffers))],
        "source": texts.column(sources),
        "label": texts.column(buffer.label.value for buffer in buffers),
        "role": [None if v is None else texts.of(v.role) for v in variables],
        "offloaded": [v is not None and v.offloaded for v in variables],
        "split": [1 if v is None else v.split for v in variables],
    }


class _Types:
    """Element types with shapes as texts; each is written once."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}

    def operands(self, operands: Sequence[Operand]) -> list[int | None]:
        """Returns the tensor and type of each operand, one after the other."""
        flat: list[int | None] = []
        for dtype, shape, buffer in operands:
            known = self._known.get((dtype, shape))
            if known is None:
                known = self._known[dtype, shape] = self._texts.of(f"{dtype}{list(shape)}")
            flat += (buffer, known)
        return flat


def _shape(shape: tuple[int, ...], entries: int) -> list[int]:
    """Returns the dimensions of all tensors of a buffer together."""
    return list(shape) if entries == 1 else [entries, *shape]


def _accesses(workload: Workload) -> tuple[list[int | None], list[list[int]]]:
    """Returns the producer of each tensor, and its users, without ops that run other ops."""
    makers: list[int | None] = [None] * len(workload.buffers)
    users: list[list[int]] = [[] for _ in workload.buffers]
    for index, op in enumerate(workload.ops):
        if op.end > index + 1:
            continue
        for operand in op.inputs:
            if operand.buffer is not None:
                using = users[operand.buffer]
                if not using or using[-1] != index:
                    using.append(index)
        _add_makers(workload, makers, users, index, op)
    return makers, users


def _add_makers(
    workload: Workload, makers: list[int | None], users: list[list[int]], index: int, op: Op
) -> None:
    """Records the results of an op; if a buffer exists already, the op is a user of it."""
    for operand in op.outputs:
        buffer = operand.buffer
        if buffer is None:
            continue
        if makers[buffer] is None and workload.buffers[buffer].kind == "tensor":
            makers[buffer] = index
        elif makers[buffer] != index and (not users[buffer] or users[buffer][-1] != index):
            users[buffer].append(index)


def _source(workload: Workload, maker: int | None, users: Sequence[int]) -> str:
    """Returns the user's line of the op that made a tensor, or used it first."""
    first = maker if maker is not None else next(iter(users), None)
    return "" if first is None else workload.ops[first].source


# --- Memory of an IPU ---


def memory_tables(plan: Plan, details: Details, texts: Texts) -> list[dict[str, Any]]:
    """Returns the memory of each IPU as data for JSON.

    Args:
        plan: memory and time of a program.
        details: summands of the plan.
        texts: receives the texts.

    Returns:
        For each IPU its totals and categories; the liveness of its steps; residents with their
        mapping to tiles; transients with first and last step. The bytes of a transient on a tile
        follow from its size: see `tile_mapping.spread`.
    """
    return [
        _of_ipu(memory, detail, exact, texts)
        for memory, detail, exact in zip(plan.memory, details.memory, details.exact)
    ]


def _of_ipu(memory: IpuMemory, detail: MemoryDetails, exact: bool, texts: Texts) -> dict[str, Any]:
    """Returns the memory of one IPU."""
    steps = {
        "op": detail.steps.tolist(),
        "bytes": memory.live_bytes.tolist(),
        "worst": memory.live_worst.tolist(),
    }
    if not exact:
        steps |= _curves(detail)
    peak_op = -1 if memory.peak_op is None else memory.peak_op
    at_peak = np.flatnonzero(detail.steps == peak_op)
    return {
        "ipu": memory.ipu,
        "capacity": int(memory.capacity),
        "tiles": detail.tiles,
        "compute_tiles": detail.compute_tiles,
        "block": tile_mapping.BLOCK,
        "fits": bool(memory.fits),
        "worst_tile": memory.worst_tile,
        "worst_bytes": memory.worst_bytes,
        "total_bytes": memory.total,
        "always_bytes": memory.always_live,
        "matches": exact,
        "categories": [
            {
                "name": category.name,
                "always_live": bool(category.always_live),
                "label": category.label.value,
                "total": category.total,
                "tiles": runs(category.tiles),
            }
            for category in memory.categories
        ],
        "peak": runs(memory.peak),
        "steps": steps,
        "peak_step": int(at_peak[0]) if len(at_peak) else None,
        **_residents(detail, texts),
        "stretches": _stretches(detail, texts),
        "temporaries": detail.temporaries.tolist(),
        "temporary_tiles": detail.temporary_tiles.tolist(),
    }


def _residents(detail: MemoryDetails, texts: Texts) -> dict[str, Any]:
    """Returns the residents, with a table of distinct mappings."""
    mappings: dict[bytes, int] = {}
    found: list[list[int]] = []
    rows: list[tuple[Any, ...]] = []
    parts: list[tuple[int, int, int]] = []
    for resident, tiles in detail.residents:
        key = tiles.tobytes()
        if key not in mappings:
            mappings[key] = len(found)
            found.append(runs(tiles))
        parts += [(len(rows), buffer, size) for buffer, size in resident.parts]
        category, source = texts.of(resident.category), texts.of(resident.source)
        rows.append(
            (resident.buffer, resident.name, category, resident.num_bytes, mappings[key], source)
        )
    names = ("tensor", "name", "category", "bytes", "mapping", "source")
    return {
        "mappings": found,
        "residents": _columns(names, rows),
        "parts": _columns(("resident", "tensor", "bytes"), parts),
    }


def _stretches(detail: MemoryDetails, texts: Texts) -> dict[str, list[Any]]:
    """Returns the transients with their live ranges."""
    found = detail.stretches
    sizes = [stretch.num_bytes for stretch in found]
    worst = tile_mapping.fullest(np.array(sizes, np.int64), detail.compute_tiles)
    return {
        "tensor": [stretch.buffer for stretch in found],
        "category": texts.column(stretch.category for stretch in found),
        "bytes": sizes,
        "worst": worst.tolist(),
        "birth": [stretch.birth for stretch in found],
        "death": [stretch.death for stretch in found],
    }


def _curves(detail: MemoryDetails) -> dict[str, Any]:
    """Returns the liveness of the present plan, for a saved plan with another."""
    changes = np.zeros((2, len(detail.steps) + 1), np.int64)
    for stretch in detail.stretches:
        size = np.array([stretch.num_bytes], np.int64)
        worst = int(tile_mapping.fullest(size, detail.compute_tiles)[0])
        for change, amount in zip(changes, (stretch.num_bytes, worst)):
            change[stretch.birth] += amount
            change[stretch.death + 1] -= amount
    whole, worst_tile = np.cumsum(changes, axis=1)[:, :-1]
    return {
        "bytes": (whole + detail.temporaries * detail.temporary_tiles).tolist(),
        "worst": (worst_tile + detail.temporaries).tolist(),
    }


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Records as one list for each field."""
    values = [list(column) for column in zip(*rows)] or [[] for _ in names]
    return dict(zip(names, values))


# --- The whole page ---

#: Grows when a page that was written for an older version could misread the data.
VERSION = 1


def page_data(report: ReportData) -> dict[str, Any]:
    """Returns all that the page of a report shows.

    Tables are columns of one length: `{"name": [...], "cycles": [...]}`; other tables name a row by
    its position. Texts that come often are positions in `texts`.

    Args:
        report: the report, made now or read from a file.
    """
    view, texts = report.view, Texts()
    layers = trees.positions(view.layers)
    workload = report.workload
    return {
        "version": VERSION,
        "program": _program(report),
        "target": report.target,
        "summary": summary(report),
        "bounds": dict(BOUNDS),
        "roofs": _roofs(report),
        "intervals": _intervals(view.operations),
        "layers": columns(LayerNode, view.layers, texts, ("label",)),
        "ops": op_table(workload, view.operations, layers, texts),
        "operations": operation_table(view.operations, layers, texts),
        "idle": _idle(report),
        "tensors": tensor_table(workload, layers, texts),
        "memory": memory_tables(report.plan, view.details, texts),
        "program_tree": columns(ProgramNode, view.program, texts, ("kind", "label")),
        "timeline": timeline(report, texts),
        "texts": texts.all(),
    }


def summary(report: ReportData) -> dict[str, Any]:
    """Returns the most important numbers of a report.

    Args:
        report: the report.
    """
    plan, found = report.plan, report.insights
    line, worst, measured = plan.timeline, plan.fullest, throughput.interval(plan)
    return {
        "fits": bool(plan.fits),
        "cycles": line.cycles,
        "seconds": line.seconds,
        "label": line.label.value,
        "by_kind": {kind: float(cycles) for kind, cycles in line.by_kind.items()},
        "by_label": {label.value: float(cycles) for label, cycles in line.by_label.items()},
        "flops": round(found["flops_per_second"] * line.seconds),
        "flops_per_second": found["flops_per_second"],
        "utilization": found["utilisation"],
        "items_per_second": found["items_per_second"],
        "interval": [measured.low, measured.high],
        "bubble_share": plan.timeline.bubble_share,
        "io_bound": found["io_bound"],
        "remedies": list(found["remedies"]),
        "worst": {
            "ipu": worst.ipu,
            "tile": worst.worst_tile,
            "bytes": worst.worst_bytes,
            "capacity": int(worst.capacity),
        },
    }


def operation_table(
    rows: Sequence[Operation], layers: dict[str, int], texts: Texts
) -> dict[str, list[Any]]:
    """Returns the ops and transfers of a launch as columns.

    Args:
        rows: operations of a program.
        layers: positions of its layers.
        texts: receives the texts.
    """
    named = ("type", "phase", "bound", "partition", "source", "label")
    found = columns(Operation, rows, texts, named, without=("place",))
    found["fused"] = [list(row.fused) for row in rows]
    return {**found, "layer": [layers[trees.path(row.layer)] for row in rows]}


def timeline(report: ReportData, texts: Texts, most: int = MOST_SPANS) -> dict[str, Any]:
    """Returns the spans of each IPU in a launch.

    Args:
        report: the report.
        texts: receives the texts.
        most: limit of spans.
    """
    view, line = report.view, report.plan.timeline
    found = view.spans(most)
    shown = sum(segment.cycles for segment in line.segments if segment.ipu == 0)
    return {
        "cycles": line.cycles,
        "kinds": ["op", *(k for k in line.by_kind if k not in CHIP_KINDS)],
        "shown": min(shown / line.cycles, 1.0) if line.cycles else 1.0,
        "merged": sum(each.merged for each in found),
        "ipus": [_ipu_spans(each, texts) for each in found],
    }


def _ipu_spans(found: IpuSpans, texts: Texts) -> dict[str, Any]:
    """Returns the spans of one IPU as columns."""
    return {
        "ipu": found.ipu,
        "spans": columns(Span, found.spans, texts, ("kind", "name", "phase")),
        "layers": columns(LayerSpan, found.layers, texts),
    }


def _program(report: ReportData) -> dict[str, Any]:
    """Returns the identity of the program, its batch and its launches."""
    workload = report.workload
    return {
        "name": report.name,
        "created": report.created,
        "fingerprint": workload.fingerprint,
        "api": workload.api,
        "batch": workload.batch,
        "stage_names": list(workload.stage_names),
        "launches": report.executions.launches,
        "host_seconds": report.executions.host_seconds,
        "options": dict(report.options),
    }


def _roofs(report: ReportData) -> dict[str, float]:
    """Returns the peak rates of one IPU: bytes a second, and operations a second."""
    chip = report.settings.chip
    each = chip.tiles * chip.clock
    peaks = [
        row.rate / row.peak_share for row in report.operations() if row.rate and row.peak_share
    ]
    return {
        "bytes_per_second": (chip.load_rate + chip.store_rate) * each,
        "flops_per_second": max(peaks, default=0.0),
    }


def _intervals(rows: Sequence[Operation]) -> dict[str, list[float]]:
    """Returns the factors from predictions to the range of measurements, by op type."""
    found = {}
    for kind in dict.fromkeys(row.type for row in rows):
        interval = intervals.of_op(kind)
        found[kind] = [interval.low, interval.high]
    return found


def _idle(report: ReportData) -> dict[str, list[Any]]:
    """Returns the cycles that each IPU waits for others."""
    sums = {memory.ipu: 0.0 for memory in report.plan.memory}
    for segment in report.plan.timeline.segments:
        if segment.kind == IDLE:
            sums[segment.ipu] = sums.get(segment.ipu, 0.0) + segment.cycles
    return {"ipu": list(sums), "cycles": rounded(sums.values())}
