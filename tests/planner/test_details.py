"""Tests of details, whose sums are the plan's, and of the groups of ops in reports."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.details import details, group, groups_at_peak
from tensorflow_ipu.planner.plan import LiveBuffer
from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Op
from tests.support.planner import plans
from tests.support.planner.workloads import Builder, chain, pipelines, workloads

FAST = settings(max_examples=15, derandomize=True, deadline=None)
HIDDEN = ("host in", "host out", "streaming in", "streaming out")
SETTINGS = st.builds(
    Settings,
    replicas=st.sampled_from([1, 2, 4]),
    io_tiles=st.sampled_from([0, 32]),
    recompute=st.booleans(),
)


@given(workload=st.one_of(workloads(), pipelines()), chosen=SETTINGS)
@FAST
def test_tensors_add_up_to_liveness_of_each_ipu(workload, chosen):
    made = plan(workload, chosen)
    found = details(made)
    assert all(found.exact)
    for detail, memory in zip(found.memory, made.memory):
        always = sum((placed.tiles for placed in detail.residents), np.zeros(1472, np.int64))
        kept = [c.tiles for c in memory.categories if c.always_live]
        assert np.array_equal(always, np.sum(kept, axis=0))
        for step in range(len(detail.steps)):
            live = detail.live(step)
            size = sum(stretch.num_bytes for stretch in live)
            size += int(detail.temporaries[step]) * int(detail.temporary_tiles[step])
            assert size == memory.live_bytes[step]
            # Of blocks of 128 bytes one by one from tile 0, that tile has every T-th of T tiles.
            first = sum(
                min(128, stretch.num_bytes - start)
                for stretch in live
                for start in range(0, stretch.num_bytes, 128 * detail.compute_tiles)
            )
            assert first + detail.temporaries[step] == memory.live_worst[step]


@given(workload=workloads(), chosen=SETTINGS)
@FAST
def test_fullest_tile_tensors_add_up_to_bytes(workload, chosen):
    made = plan(workload, chosen)
    (detail, *_), (memory, *_) = details(made).memory, made.memory
    step = int(memory.live_worst.argmax()) if len(memory.live_worst) else None
    if step is None or memory.worst_tile:
        return
    there = detail.on_tile(0, step, [buffer.name for buffer in workload.buffers])
    assert sum(size for _, size in there) == memory.worst_bytes


@given(workload=workloads(ipus=1), chosen=SETTINGS)
@FAST
def test_items_add_up_to_cycles_of_launch(workload, chosen):
    made = plan(workload, chosen)
    timeline = made.timeline
    # What goes on beside the computation may end after it.
    waited = [s.cycles for s in timeline.segments if s.op is None and s.name in HIDDEN]
    items = sum(item.cycles for item in details(made).items)
    assert items + sum(waited) + timeline.by_kind.get("idle", 0.0) == pytest.approx(timeline.cycles)


def test_pipeline_items_run_once_per_mini_batch():
    make = Builder(2)
    x = make.input("x", (64, 64))
    start = make.begin("While", trip_count=6)
    a = make.op("MatMul", [x, x], (64, 64), ipu=0, stage=0, runs=6)
    make.op("MatMul", [a, a], (64, 64), ipu=1, stage=1, runs=6)
    make.end(start)
    made = plan(make.workload(pipeline=PipelineDescription((0, 1), 6)), Settings())
    found = [item for item in details(made).items if item.op is not None]
    assert [(item.op, item.runs) for item in found] == [(1, 6), (2, 6)]
    assert [(t.op, t.runs) for t in made.timeline.ops] == [(1, 6), (2, 6)]


def test_tensor_lives_until_its_last_use():
    (memory,) = details(plan(chain(), Settings())).memory
    named = {stretch.buffer: (stretch.birth, stretch.death) for stretch in memory.stretches}
    # x for the first op, a for the first two, b for the last two, the result for the last.
    assert named == {0: (0, 0), 1: (0, 1), 2: (1, 2), 3: (2, 2)}
    assert [s.num_bytes >> 20 for s in memory.live(1)] == [8, 16]


def test_steps_and_tiles_not_there_are_errors():
    (memory,) = details(plan(chain(), Settings())).memory
    with pytest.raises(IndexError, match="steps 0 to 2; received 3"):
        memory.live(3)
    with pytest.raises(IndexError, match="tiles 0 to 1471; received 1472"):
        memory.on_tile(1472, 0, [])


def test_plan_costs_count_after_rules_changed():
    made = plan(chain(), Settings())
    time = made.timeline.ops[1]
    older = time._replace(cost=dataclasses.replace(time.cost, compute=12345.0, temporary=64))
    timeline = dataclasses.replace(made.timeline, ops=(made.timeline.ops[0], older))
    found = details(dataclasses.replace(made, timeline=timeline))
    assert found.costs[time.op].compute == 12345.0
    assert [item.cost.compute for item in found.items if item.op == time.op] == [12345.0]
    # More temporary memory than the plan knows: what is planned again is not that of the plan.
    assert found.exact == (False,)


def test_plan_code_counts_if_less_suffices_now():
    made = plan(chain(), Settings())
    (memory,) = made.memory
    categories = tuple(
        c._replace(tiles=c.tiles + 1000) if c.name == "vertex state" else c
        for c in memory.categories
    )
    older = dataclasses.replace(memory, categories=categories, peak=memory.peak + 1000)
    found = details(dataclasses.replace(made, memory=(older,)))
    assert found.exact == (True,)
    assert sum(p.resident.num_bytes for p in found.memory[0].residents) == older.always_live


# --- Groups of ops ---


def _op(op_type: str = "Mul", layer: str = "", source: str = "") -> Op:
    return Op("op", op_type, layer, 0, (), (), {}, 1, source=source)


@pytest.mark.parametrize(
    "op, expected",
    [
        (_op(layer="dense", source="train.py:12 (step)"), "dense"),
        (_op(source="train.py:12 (step)"), "step (train.py)"),
        (_op(source="my file (2).py:12 (<lambda>)"), "<lambda> (my file (2).py)"),
        (_op("IpuInfeedDequeue", source="train.py:12 (step)"), "infeed"),
        (_op("IpuOutfeedEnqueue"), "outfeed"),
        (_op(), ""),
    ],
)
def test_an_op_is_grouped_by_layer_or_function(op: Op, expected: str) -> None:
    assert group(op) == expected


def test_groups_of_what_is_live() -> None:
    plan = plans.plan()
    memory = plan.memory[0]
    live = (
        *memory.at_peak,
        LiveBuffer(None, "temporaries of gradients/dense/MatMul", "temporaries", 1, ""),
        LiveBuffer(None, "stack", "stack", 1, ""),
    )
    # The kernel is the dense layer's, which is the first to use it; the peak is at the gradient.
    found = groups_at_peak(plan.workload, memory, live)
    assert found == ("dense", "dense", "dense", "")
    nowhere = dataclasses.replace(memory, peak_op=None)
    assert groups_at_peak(plan.workload, nowhere, live)[2] == ""
