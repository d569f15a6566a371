"""The timeline of programs without a pipeline, by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tensorflow_ipu.configs.chips import BOW, MK2
from tensorflow_ipu.costs.chip.exchange import link_cycles, sync_cycles
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import median_label
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Copy
from tests.support.planner import workloads
from tests.support.planner.priced_workloads import op, prices  # noqa: F401
from tests.support.planner.workloads import Builder

needs_prices = pytest.mark.usefixtures("prices")


@needs_prices
def test_ops_come_one_after_the_other():
    make = Builder()
    op(make, 10, attributes={"sync": 1.0, "exchange": 5.0})
    op(make, 20)
    made = Planner(make.workload()).timeline(Settings(MK2))
    assert made.cycles == 36
    assert made.by_kind == {"sync": 1, "exchange": 5, "compute": 30}
    assert [(s.kind, s.start, s.cycles, s.op) for s in made.segments] == [
        ("sync", 0, 1, 0),
        ("exchange", 1, 5, 0),
        ("compute", 6, 10, 0),
        ("compute", 16, 20, 1),
    ]
    assert made.seconds == 36 / 1.325e9
    assert made.schedule is None


@needs_prices
def test_loop_is_shown_once_with_all_its_cycles():
    make = Builder()
    start = make.begin("While", trip_count=7)
    op(make, 10, runs=7)
    make.end(start)
    made = Planner(make.workload()).timeline(Settings())
    assert made.cycles == 70
    assert [(s.op, s.cycles) for s in made.segments] == [(1, 70)]
    assert [(time.op, time.runs, time.cycles) for time in made.ops] == [(1, 7, 70)]


@needs_prices
def test_of_branches_the_dearest_counts():
    make = Builder()
    branch = make.begin("If")
    op(make, 10, conditional=True)
    op(make, 15, conditional=True)
    op(make, 20, conditional=True, branch=1)
    make.end(branch)
    op(make, 3)
    made = Planner(make.workload()).timeline(Settings())
    assert made.cycles == 28
    assert [segment.op for segment in made.segments] == [1, 2, 4]


@needs_prices
def test_host_and_dead_ops_take_no_time():
    make = Builder()
    op(make, 10, ipu=None)
    op(make, 10, runs=0)
    made = Planner(make.workload()).timeline(Settings())
    assert made.cycles == 0 and made.by_kind == {} and made.label is Label.EXACT


@needs_prices
def test_ipus_overlap_unless_dependent():
    make = Builder(2)
    first = op(make, 100, ipu=0)
    op(make, 70, ipu=1)
    op(make, 20, [first], ipu=1)
    made = Planner(make.workload()).timeline(Settings())
    assert made.cycles == 120
    by_ipu = {ipu: [s for s in made.segments if s.ipu == ipu] for ipu in (0, 1)}
    assert [(s.kind, s.start, s.cycles) for s in by_ipu[0]] == [
        ("compute", 0, 100),
        ("idle", 100, 20),
    ]
    assert [(s.kind, s.start, s.cycles) for s in by_ipu[1]] == [
        ("compute", 0, 70),
        ("idle", 70, 30),
        ("compute", 100, 20),
    ]
    assert made.by_kind == {"compute": 100, "idle": 20}


@needs_prices
def test_a_copy_keeps_both_ipus_busy():
    make = Builder(2)
    first = op(make, 100, ipu=0, name="made")
    op(make, 20, [first], ipu=1)
    copy = Copy("made", 0, 1, 54_400, 1)
    workload = dataclasses.replace(make.workload(), copies=(copy,))
    made = Planner(workload).timeline(Settings(MK2))
    # 54,400 bytes over the four links of a pair, 54.4 GB/s, are 1 us.
    copied = 1e-6 * MK2.clock + 1.28e-6 * MK2.clock + sync_cycles(2, MK2)
    assert made.cycles == pytest.approx(120 + copied)
    links = [segment for segment in made.segments if segment.kind == "link"]
    assert {(s.ipu, s.start) for s in links} == {(0, 100), (1, 100)}
    assert made.transfers[0].cycles == pytest.approx(copied)


@needs_prices
def test_ipu_does_other_things_before_it_takes_copy():
    make = Builder(2)
    first = op(make, 100, ipu=0, name="made")
    op(make, 70, ipu=1)
    op(make, 20, [first], ipu=1)
    copy = Copy("made:0", 0, 1, 1000, 1)
    made = Planner(dataclasses.replace(make.workload(), copies=(copy,))).timeline(Settings(MK2))
    assert [(s.kind, s.start) for s in made.segments if s.ipu == 1][:3] == [
        ("compute", 0),
        ("idle", 70),
        ("link", 100),
    ]


@needs_prices
@pytest.mark.parametrize(("limit", "copies"), [(0, 2), (400, 1)])
def test_copies_are_merged_up_to_the_option(limit, copies):
    make = Builder(4)
    names = ["a", "b"]
    for name in names:
        op(make, 1, ipu=0, name=name)
    workload = dataclasses.replace(
        make.workload(), copies=tuple(Copy(name, 0, 2, 200, 1) for name in names)
    )
    option = {"maximum_inter_ipu_copies_buffer_size": limit}
    made = Planner(workload).timeline(Settings(BOW, merged_bytes=option))
    each = link_cycles(400 / copies, BOW) + sync_cycles(2, BOW)
    assert sum(transfer.cycles for transfer in made.transfers) == pytest.approx(copies * each)
    assert made.cycles == pytest.approx(2 + copies * each)


@needs_prices
def test_labels_are_those_of_most_cycles():
    make = Builder()
    op(make, 40, attributes={"label": "assumed"})
    op(make, 50)
    op(make, 10, attributes={"label": "exact"})
    made = Planner(make.workload()).timeline(Settings())
    assert made.by_label == {Label.ASSUMED: 40, Label.MODELLED: 50, Label.EXACT: 10}
    assert made.label is Label.MODELLED


@needs_prices
def test_unknown_trip_counts_make_times_assumed():
    make = Builder()
    op(make, 40, label=Label.ASSUMED)
    assert Planner(make.workload()).timeline(Settings()).label is Label.ASSUMED


@pytest.mark.parametrize(
    ("cycles", "label"),
    [
        ({}, Label.EXACT),
        ({Label.EXACT: 1.0}, Label.EXACT),
        ({Label.EXACT: 50.0, Label.ASSUMED: 50.0}, Label.ASSUMED),
        ({Label.EXACT: 40.0, Label.MODELLED: 30.0, Label.ASSUMED: 30.0}, Label.MODELLED),
    ],
)
def test_the_median_label_is_that_of_most_cycles(cycles, label):
    assert median_label(cycles) is label


def test_recomputing_repeats_cheap_forward_ops():
    workload = workloads.training_step()
    kept = Planner(workload).timeline(Settings())
    again = Planner(workload).timeline(Settings(recompute=True))
    runs = {workload.ops[t.op].name: t.runs for t in again.ops}
    assert runs["dense0/Relu"] == 2 and runs["dense0/MatMul"] == 1
    assert runs["gradients/dense0/ReluGrad"] == 1
    extra = sum(t.cost.cycles for t in kept.ops if workload.ops[t.op].type == "Relu")
    assert again.cycles == pytest.approx(kept.cycles + extra)


def test_io_tiles_do_not_compute():
    workload = workloads.training_step(width=512, batch=512)
    all_tiles = Planner(workload).timeline(Settings())
    fewer = Planner(workload).timeline(Settings(io_tiles=736))
    assert fewer.by_kind["compute"] > 1.5 * all_tiles.by_kind["compute"]


@hypothesis_settings(derandomize=True, max_examples=25, deadline=None)
@given(workload=workloads.workloads())
def test_kinds_add_up_without_overlap_on_ipu(workload):
    made = Planner(workload).timeline(Settings())
    assert sum(made.by_kind.values()) == pytest.approx(made.cycles)
    busy = made.cycles - made.by_kind.get("idle", 0.0)
    assert sum(made.by_label.values()) == pytest.approx(busy)
    for ipu in range(workload.ipus):
        at = 0.0
        for segment in (segment for segment in made.segments if segment.ipu == ipu):
            assert segment.start == pytest.approx(at)
            at = segment.start + segment.cycles
        assert at == pytest.approx(made.cycles)


@hypothesis_settings(derandomize=True, max_examples=25, deadline=None)
@given(workload=workloads.workloads())
def test_several_ipus_lie_between_sum_and_busiest(workload):
    made = Planner(workload).timeline(Settings())
    each = [0.0] * workload.ipus
    for segment in made.segments:
        if segment.kind != "idle":
            each[segment.ipu] += segment.cycles
    assert max(each) * (1 - 1e-9) <= made.cycles <= sum(each) * (1 + 1e-9)
