"""Tests of tracks of an IPU: layers around their ops, the mean tile beside the slowest."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.cost import Cost, Partition
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import OpTime, Segment
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.export import trace_tracks
from tensorflow_ipu.profiler.export.trace_tracks import TileUses
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans, workloads
from tests.support.planner.workloads import Builder

CHIP = chips.get("mk2").with_tiles(32)
PLANS = {
    "step": planning.plan(workloads.training_step(), Settings(CHIP)),
    "pipeline": planning.plan(workloads.pipeline(2), Settings(CHIP)),
    "by hand": plans.plan(),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


@each_plan
def test_mean_tile_takes_as_long_as_slowest(plan) -> None:
    for tracks in trace_tracks.tracks(plan):
        compute = sum(s.cycles for s in tracks.slowest.slices if s.kind == "compute")
        waits = tracks.waits
        assert waits.mean_busy + waits.wait == pytest.approx(compute)
        assert 0 < waits.mean_busy <= compute
        assert waits.sync == sum(s.cycles for s in tracks.slowest.slices if s.kind == "sync")
        shown = [s for s in tracks.mean.slices if s.kind == trace_tracks.WAIT]
        assert sum(s.cycles for s in shown) == pytest.approx(waits.wait)


@pytest.mark.parametrize("elements", [1, 31, 32, 33, 1000, 1024, 1025, 2049, 100_000])
def test_ops_without_partition_use_largest_tensor_tiles(elements) -> None:
    make = Builder()
    make.op("Relu", [make.input("x", (elements,))], (elements,), name="relu")
    plan = planning.plan(make.workload(), Settings(CHIP))
    segment = next(s for s in plan.timeline.segments if s.kind == "compute")
    use = TileUses(plan).of(segment)
    # Pairs of floats one after the other on tiles that take as many, and at least 128 bytes.
    pairs = -(-elements // 2)
    most = max(-(-pairs // 32) * 2, 32)
    per_tile = np.array([max(0, min(most, elements - tile * most)) for tile in range(32)])
    assert per_tile.sum() == elements
    assert use.tiles == (per_tile > 0).sum()
    assert use.mean == pytest.approx(per_tile.mean() / per_tile.max())


@pytest.mark.parametrize("name", ["step", "pipeline"])
def test_tiles_are_those_of_the_table_of_operations(name) -> None:
    plan = PLANS[name]
    uses = TileUses(plan)
    of_ops = {
        row.op: row.tiles for row in Report.from_plan(plan).operations() if row.op is not None
    }
    for time in plan.timeline.ops:
        if time.cost.compute:
            segment = Segment(0, "compute", "", 0.0, 1.0, time.op, None, "", None, Label.MODELLED)
            assert uses.of(segment).tiles == of_ops[time.op]


@pytest.mark.parametrize("parts, tiles", [((2, 3), 6), ((1, 1), 1), ((8, 1), 8)])
def test_ops_with_a_partition_use_its_tiles(parts, tiles) -> None:
    plan = plans.plan()
    partition = Partition((("rows", parts[0]), ("columns", parts[1])))
    cost = Cost(300, 100, 20, partition=partition)
    timeline = dataclasses.replace(plan.timeline, ops=(OpTime(0, 0, cost, 1),))
    plan = dataclasses.replace(plan, timeline=timeline)
    use = TileUses(plan).of(plan.timeline.segments[1])
    assert use == (tiles, tiles / plans.TILES)
    (tracks,) = trace_tracks.tracks(plan)
    busy = next(s for s in tracks.mean.slices if s.name == "dense/MatMul" and s.kind == "compute")
    assert busy.cycles == pytest.approx(300 * tiles / plans.TILES)


def test_layers_hold_their_ops_and_inner_layers() -> None:
    plan = PLANS["step"]
    (tracks,) = trace_tracks.tracks(plan)
    layers = {s.details["scope"]: s for s in tracks.layers.slices}
    inner, outer = layers["gradients/dense1"], layers["gradients"]
    assert outer.start <= inner.start and inner.end <= outer.end
    for scope, layer in layers.items():
        if not scope.startswith(("dense", "gradients")):
            continue  # an op outside of scopes is in the layer it belongs to
        own = [
            s
            for s in plan.timeline.segments
            if s.op is not None and plan.workload.ops[s.op].name.startswith(f"{scope}/")
        ]
        assert layer.details["cycles"] == pytest.approx(sum(s.cycles for s in own))
        assert layer.start == min(s.start for s in own)
        assert layer.end == pytest.approx(max(s.start + s.cycles for s in own))


def test_stages_have_their_mini_batches_inside() -> None:
    plan = PLANS["pipeline"]
    for tracks in trace_tracks.tracks(plan):
        names = [s.name for s in tracks.layers.slices]
        assert f"stage{tracks.ipu} forward" in names and f"stage{tracks.ipu} backward" in names
        assert "mini-batch 0" in names


@each_plan
def test_counter_of_tiles_is_zero_where_nothing_computes(plan) -> None:
    for tracks in trace_tracks.tracks(plan):
        starts = [cycles for cycles, _ in tracks.used]
        assert starts == sorted(starts)
        for one in tracks.slowest.slices:
            last = max(i for i, start in enumerate(starts) if start <= one.start + 1e-9)
            assert (tracks.used[last][1] > 0) == (one.kind == "compute")
