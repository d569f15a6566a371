"""`Plan`: the memory and time of a Workload, from which every report is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.schedule.timing import Timing
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.util.short_repr import shows

# --- The label (exact, modelled, assumed) of a sum of labelled numbers ---


def median_label(by_label: Mapping[Label, float]) -> Label:
    """Returns the median label of some cycles.

    Args:
        by_label: cycles by label.
    """
    total = sum(by_label.values())
    worse = 0.0
    for label in reversed(tuple(Label)):
        worse += by_label.get(label, 0.0)
        if worse and 2 * worse >= total:
            return label
    return Label.EXACT


# --- `Plan`: the memory and time of a Workload, from which every report is made ---


class Category(NamedTuple):
    """Memory of one category on each tile of an IPU.

    Args:
        name: such as `variables`, `optimizer state`, `vertex code`, `activations`.
        always_live: whether it is resident during the whole program.
        tiles: bytes on each tile, int64; for transient memory, at the tile's peak.
        label: label of the bytes.
    """

    name: str
    always_live: bool
    tiles: np.ndarray
    label: Label

    @property
    def total(self) -> int:
        """Bytes on all tiles."""
        return int(self.tiles.sum())


class LiveBuffer(NamedTuple):
    """A buffer that is live at the peak of an IPU.

    Args:
        buffer: index into `Workload.buffers`; None for memory that has no buffer, such as a stash
            of earlier mini-batches or a temporary of an op.
        name: its name.
        category: name of its category.
        num_bytes: its size on the IPU, all tiles.
        source: line of the user's program that made it; empty if unknown.
    """

    buffer: int | None
    name: str
    category: str
    num_bytes: int
    source: str


@dataclasses.dataclass(frozen=True)
class IpuMemory:
    """The memory of one IPU during a program.

    Attributes:
        ipu: IPU within the replica.
        capacity: Bytes of each tile.
        categories: Memory by category. Residents first, then transients.
        peak: Bytes on each tile at the tile's own peak, int64: residents plus the maximum of
            transients over time.
        live_ops: Op of each point of the liveness curve, int32 indices into `Workload.ops`, in
            program order.
        live_bytes: Transient bytes on all tiles at each of these points, int64.
        live_worst: Transient bytes on the fullest tile at each of these points.
        peak_op: Op at the peak; None in a program without ops on this IPU.
        at_peak: Buffers live at the peak, largest first, residents included.
    """

    ipu: int
    capacity: int
    categories: tuple[Category, ...]
    peak: np.ndarray
    live_ops: np.ndarray
    live_bytes: np.ndarray
    live_worst: np.ndarray
    peak_op: int | None
    at_peak: tuple[LiveBuffer, ...]

    __repr__ = shows(
        lambda self: {
            "ipu": self.ipu,
            "fits": self.fits,
            "total": self.total,
            "worst_tile": self.worst_tile,
            "worst_bytes": self.worst_bytes,
            "capacity": self.capacity,
        }
    )

    @property
    def worst_tile(self) -> int:
        """The fullest tile."""
        return int(self.peak.argmax())

    @property
    def worst_bytes(self) -> int:
        """Bytes on the fullest tile at its peak."""
        return int(self.peak.max())

    @property
    def total(self) -> int:
        """Bytes on all tiles, each at its peak."""
        return int(self.peak.sum())

    @property
    def always_live(self) -> int:
        """Bytes of residents, on all tiles."""
        return sum(category.total for category in self.categories if category.always_live)

    @property
    def fits(self) -> bool:
        """Whether no tile exceeds its memory."""
        return self.worst_bytes <= self.capacity

    def category(self, name: str) -> Category | None:
        """Returns a category, None if the IPU has nothing of it."""
        return next((c for c in self.categories if c.name == name), None)


class OpTime(NamedTuple):
    """The time of one op in a launch.

    Args:
        op: index into `Workload.ops`.
        ipu: IPU within the replica.
        cost: of one run.
        runs: in one launch.
    """

    op: int
    ipu: int
    cost: Cost
    runs: int

    @property
    def cycles(self) -> float:
        """Cycles of all runs."""
        return self.cost.cycles * self.runs


class Segment(NamedTuple):
    """A stretch of the timeline of one IPU.

    Args:
        ipu: IPU within the replica.
        kind: `compute`, `exchange`, `sync`, `link` (to other IPUs), `collective`, `host`,
            `streaming` (streaming memory) or `idle`.
        name: of the op, stage or transfer.
        start: cycles from the start of the launch.
        cycles: length.
        op: index into `Workload.ops`, None if it is not one op.
        stage: pipeline stage, None outside of pipelines.
        phase: phase of the pipeline stage.
        mini_batch: of the pipeline, None outside.
        label: label of the length.
    """

    ipu: int
    kind: str
    name: str
    start: float
    cycles: float
    op: int | None
    stage: int | None
    phase: str
    mini_batch: int | None
    label: Label


class Transfer(NamedTuple):
    """Data that goes in or out of an IPU during one launch.

    Args:
        name: of the feed, argument, variable or collective.
        kind: `host in`, `host out`, `streaming in`, `streaming out`, `link` or `collective`.
        ipu: IPU within the replica.
        num_bytes: of one run.
        runs: in one launch.
        cycles: of one run, if it were waited for.
        overlapped: whether it goes on while the IPU computes.
        label: label of the cycles.
    """

    name: str
    kind: str
    ipu: int
    num_bytes: int
    runs: int
    cycles: float
    overlapped: bool
    label: Label


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The time of one launch of the program, and the segments of each IPU.

    Attributes:
        cycles: From start to end of a launch.
        clock: Cycles per second.
        by_kind: Cycles of the busiest IPU by kind of segment, `idle` included; they add up to
            `cycles`.
        ops: Time of each op with a cost.
        segments: Work of each IPU, in order. An op of a loop is one segment with the cycles of all
            iterations; a pipeline's stages have one for each mini-batch.
        transfers: Data in and out.
        schedule: Times of the pipeline's schedule; None without a pipeline.
        label: Label of the total: the label of the parts that make up most of it.
        by_label: Cycles of the busiest IPU by label.
    """

    cycles: float
    clock: float
    by_kind: Mapping[str, float]
    ops: tuple[OpTime, ...]
    segments: tuple[Segment, ...]
    transfers: tuple[Transfer, ...]
    schedule: Timing | None
    label: Label
    by_label: Mapping[Label, float]

    __repr__ = shows(
        lambda self: {
            "cycles": round(self.cycles),
            "seconds": float(f"{self.seconds:.4g}"),
            "label": self.label.value,
            "ops": len(self.ops),
            "segments": len(self.segments),
            "transfers": len(self.transfers),
        }
    )

    @property
    def seconds(self) -> float:
        """Time of one launch in seconds."""
        return self.cycles / self.clock

    @property
    def bubble_share(self) -> float | None:
        """Idle share of a pipeline's IPU time, 0 to 1; None without a pipeline."""
        return None if self.schedule is None else self.schedule.bubble_share


@dataclasses.dataclass(frozen=True)
class Plan:
    """Memory and time of a Workload on a chip.

    Attributes:
        workload: The program.
        settings: Chip, replicas and options of the plan.
        memory: Of each IPU of a replica.
        timeline: Of one launch of one replica.
    """

    workload: Workload
    settings: Settings
    memory: tuple[IpuMemory, ...]
    timeline: Timeline

    __repr__ = shows(
        lambda self: {
            "": self.workload.name,
            "fits": self.fits,
            "cycles": round(self.timeline.cycles),
            "worst_bytes": self.fullest.worst_bytes,
            "ipus": self.workload.ipus,
            "replicas": self.settings.replicas,
            "chip": self.settings.chip.name,
        }
    )

    @property
    def fits(self) -> bool:
        """Whether no tile exceeds its memory."""
        return all(ipu.fits for ipu in self.memory)

    @property
    def fullest(self) -> IpuMemory:
        """The IPU with the fullest tile."""
        return max(self.memory, key=lambda ipu: ipu.worst_bytes)
