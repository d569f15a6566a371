"""`Operation`: an op or a transfer with its cycles, bound and partition."""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_ipu import op_names
from tensorflow_ipu.costs import intervals
from tensorflow_ipu.planner.time.items import COLLECTIVE, HOST
from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.profiler.breakdown import NO_LAYER

FORWARD = "forward"


class Operation(NamedTuple):
    """An op or a transfer with its cycles in a launch of a replica.

    Args:
        name: of the op; for a transfer that no op makes, of the transferred tensor.
        type: op type of TensorFlow; of a transfer that no op makes `host in`, `host out`,
            `streaming in`, `streaming out`, `link` or `collective`.
        layer: the layer it is in, or its stand-in, as in `LayerRow`.
        ipu: the IPU it runs on.
        phase: `forward`, `backward` or `update`.
        runs: executions.
        cycles: of all runs: compute, exchange, sync and transfer.
        compute: part of it that tiles compute.
        exchange: part of it that tiles exchange data.
        sync: part of it that tiles wait for each other.
        transfer: part of it that data come or go: from and to host, streaming memory, other IPUs.
        share: part of the cycles of all operations, 0 to 1.
        bound: its bound, one of `bounds.BOUNDS`: `AMP`, `vector`, `load/store`, `exchange`, `sync`,
            `host`, `streaming`, `link`.
        roofline: cycles at the roof / cycles taken, 0 to 1: see `bounds.roofline` and, for
            transfers, `bounds.transfer_share`; None for a wait.
        partition: its division over the tiles, as `positions 46, outputs 32; partials
            float32`; empty if there is no choice.
        tiles: tiles that have a part of it.
        temporary: bytes of its temporaries on the fullest tile.
        vertex_state: bytes of vertex descriptions per tile.
        exchange_code: bytes of exchange code per tile.
        flops: of all runs, None without a formula.
        rate: operations a second while it runs.
        peak_share: `rate` / peak of the IPU's matrix units for its types.
        intensity: operations per byte of operands and results.
        attainable: operations a second at the roof.
        num_bytes: of one run of a transfer; None for computation.
        peer: IPU that a copy between IPUs goes to, and keeps as busy as the first; else None.
        op: index into `Workload.ops`, None for a transfer that no op makes.
        fused: indices of the other ops of its fused group; its numbers are the group's.
        place: its place in the program: index of an op, -1 at the start, and -1 before the op, 0 at
            it or 1 after it.
        stage: pipeline stage, None outside of pipelines.
        source: line of the user's program.
        label: label of the cycles.
    """

    name: str
    type: str
    layer: str
    ipu: int
    phase: str
    runs: int
    cycles: float
    compute: float
    exchange: float
    sync: float
    transfer: float
    share: float
    bound: str
    roofline: float | None
    partition: str
    tiles: int
    temporary: int
    vertex_state: int
    exchange_code: int
    flops: int | None
    rate: float | None
    peak_share: float | None
    intensity: float | None
    attainable: float | None
    num_bytes: int | None
    peer: int | None
    op: int | None
    fused: tuple[int, ...]
    place: tuple[int, int]
    stage: int | None
    source: str
    label: str

    @property
    def range(self) -> tuple[float, float]:
        """Cycles between which eight of ten measurements of its kind lie: see `costs.intervals`."""
        return intervals.of_op(self.type).of_time(self.cycles)


def kind_of(op: Op) -> str:
    """Returns the kind of the segments of an op; empty for an op that computes on the tiles.

    Args:
        op: the op.
    """
    if op.ipu is None or op.type in op_names.FEEDS or op.type in op_names.TABLE_OPS:
        return HOST
    return COLLECTIVE if op.type in op_names.LINK_COLLECTIVES else ""


#: An operation of nothing.
EMPTY = Operation(
    "", "", NO_LAYER, 0, FORWARD, 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "", None, "", 0, 0, 0, 0,
    None, None, None, None, None, None, None, None, (), (-1, 0), None, "", "",
)  # fmt: skip
