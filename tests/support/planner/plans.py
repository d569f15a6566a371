"""Plans made by hand, with numbers that tests can add up themselves."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import (
    Category,
    IpuMemory,
    LiveBuffer,
    OpTime,
    Plan,
    Segment,
    Timeline,
    Transfer,
)
from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule, build
from tensorflow_ipu.planner.schedule.timing import Costs, timed
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import (
    INPUT,
    TENSOR,
    VARIABLE,
    Buffer,
    Op,
    Operand,
    Variable,
    Workload,
)

TILES = 8
CHIP = chips.get("mk2").with_tiles(TILES)
CAPACITY = CHIP.memory_per_tile
NAME = "net <\"&'>"


def plan(replicas: int = 1, scale: int = 1) -> Plan:
    """A dense layer with its gradient and update on one IPU; memory is multiplied by `scale`."""
    timeline = Timeline(
        cycles=1000.0,
        clock=CHIP.clock,
        by_kind={"compute": 600.0, "exchange": 200.0, "sync": 50.0, "host": 100.0, "idle": 50.0},
        ops=(
            OpTime(0, 0, Cost(300, 100, 20, codelets=("amp",)), 1),
            OpTime(1, 0, Cost(100, 50, 15, codelets=("amp",), label=Label.ASSUMED), 2),
            OpTime(2, 0, Cost(100, 0, 0, codelets=("axpy",)), 1),
        ),
        segments=_segments(),
        transfers=(
            Transfer("infeed", "host in", 0, 4096, 2, 50.0, False, Label.MODELLED),
            Transfer("outfeed", "host out", 0, 128, 2, 10.0, True, Label.ASSUMED),
        ),
        schedule=None,
        label=Label.MODELLED,
        by_label={Label.EXACT: 0.0, Label.MODELLED: 670.0, Label.ASSUMED: 330.0},
    )
    return Plan(_workload(), Settings(CHIP, replicas), (memory(0, scale),), timeline)


def pipeline_plan(mini_batches: int = 8) -> Plan:
    """Two stages on two IPUs."""
    description = PipelineDescription(
        (0, 1), mini_batches, training=True, schedule=PipelineSchedule.Grouped
    )
    schedule = build(description)
    timing = timed(schedule, Costs((10.0, 20.0), (20.0, 40.0), None, (5.0, 5.0)))
    segments = tuple(
        Segment(
            int(row["ipu"]),
            "compute",
            f"stage {row['stage']}",
            float(start),
            float(end - start),
            None,
            int(row["stage"]),
            ("forward", "recompute", "backward", "update")[int(row["phase"])],
            int(row["mini_batch"]),
            Label.MODELLED,
        )
        for row, start, end in zip(schedule.table, timing.start, timing.end)
    )
    timeline = Timeline(
        timing.total, CHIP.clock, {"compute": timing.total}, (), segments, (), timing,
        Label.MODELLED, {Label.MODELLED: timing.total},
    )  # fmt: skip
    base = _workload()
    workload = Workload(
        "pipe", base.ops, base.buffers, base.variables, (), 2, description, ("first", "last")
    )
    return Plan(workload, Settings(CHIP), (memory(0), memory(1)), timeline)


def memory(ipu: int, scale: int = 1) -> IpuMemory:
    """Variables on all tiles, activations on half of them."""
    variables = np.full(TILES, 1000 * scale, np.int64)
    activations = np.zeros(TILES, np.int64)
    activations[: TILES // 2] = np.arange(4, 0, -1) * 100 * scale
    return IpuMemory(
        ipu=ipu,
        capacity=CAPACITY,
        categories=(
            Category("variables", True, variables, Label.EXACT),
            Category("activations", False, activations, Label.MODELLED),
        ),
        peak=variables + activations,
        live_ops=np.array([0, 1, 2], np.int32),
        live_bytes=np.array([0, 1000, 500], np.int64) * scale,
        live_worst=np.array([0, 400, 200], np.int64) * scale,
        peak_op=1,
        at_peak=(
            LiveBuffer(0, "dense/kernel", "variables", 8000 * scale, ""),
            LiveBuffer(2, "dense/MatMul", "activations", 1000 * scale, "train.py:12 (step)"),
        ),
    )


def _segments() -> tuple[Segment, ...]:
    """Returns the activities of the IPU, without gaps."""
    parts = (
        ("host", "infeed", 100.0, None),
        ("compute", "dense/MatMul", 300.0, 0),
        ("exchange", "dense/MatMul", 100.0, 0),
        ("sync", "dense/MatMul", 20.0, 0),
        ("compute", "gradients/dense/MatMul", 200.0, 1),
        ("exchange", "gradients/dense/MatMul", 100.0, 1),
        ("sync", "gradients/dense/MatMul", 30.0, 1),
        ("compute", "update", 100.0, 2),
        ("idle", "", 50.0, None),
    )
    segments, start = [], 0.0
    for kind, name, cycles, op in parts:
        segments.append(Segment(0, kind, name, start, cycles, op, None, "", None, Label.MODELLED))
        start += cycles
    return tuple(segments)


def _workload() -> Workload:
    """Forward, backward and update of a dense layer."""
    kernel, x, y, gradient = (
        Operand("float32", (40, 50), 0),
        Operand("float32", (16, 40), 1),
        Operand("float32", (16, 50), 2),
        Operand("float32", (40, 50), 3),
    )
    ops = (
        Op("dense/MatMul", "MatMul", "dense", 0, (x, kernel), (y,), {"transpose_a": False}, 1,
           source="train.py:12 (step)", flops=64000),
        Op("gradients/dense/MatMul", "MatMul", "dense", 0, (x, y), (gradient,), {}, 2, runs=2,
           phase="backward", flops=64000),
        Op("update", "ResourceApplyGradientDescent", "", 0, (kernel, gradient), (), {}, 3,
           phase="update"),
    )  # fmt: skip
    buffers = (
        Buffer("dense/kernel", "float32", (40, 50), VARIABLE, 0, variable=0),
        Buffer("x", "float32", (16, 40), INPUT, 0),
        Buffer("dense/MatMul", "float32", (16, 50), TENSOR, 0),
        Buffer("gradients/dense/MatMul", "float32", (40, 50), TENSOR, 0),
    )
    variables = (Variable("dense/kernel", "float32", (40, 50), "weight", 0),)
    return Workload(NAME, ops, buffers, variables, (), 1, None, (), 16, "0123abcd")
