"""Tests of outcomes of other settings: against their plans, and impossible settings."""

from __future__ import annotations

import json

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.schedule import PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning import what_if
from tensorflow_ipu.tuning.edits import batch
from tensorflow_ipu.tuning.stages import stage_split
from tests.support.planner.layered_workloads import dense
from tests.support.planner.workloads import pipeline

SETTINGS = Settings(chip=chips.MK2.with_tiles(64))
WORKLOAD = dense([256] * 5, batch=32)


def _one(changes, workload=WORKLOAD, settings=SETTINGS):
    (outcome,) = what_if.outcomes(workload, settings, {k: [v] for k, v in changes.items()})
    return outcome


def _equals(outcome, plan):
    assert outcome.error == ""
    assert outcome.worst == plan.fullest.worst_bytes
    assert outcome.capacity == plan.fullest.capacity
    assert outcome.fits == plan.fits
    assert outcome.cycles == pytest.approx(plan.timeline.cycles)
    assert outcome.seconds == pytest.approx(plan.timeline.cycles / plan.settings.chip.clock)


def test_no_change_is_the_plan():
    (outcome,) = what_if.outcomes(WORKLOAD, SETTINGS, {})
    _equals(outcome, planning.plan(WORKLOAD, SETTINGS))
    assert outcome.items_per_second == pytest.approx(32 / outcome.seconds)
    assert outcome.ipus == 1
    assert outcome.bubble_share is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"chip": "bow"}, {"chip": chips.BOW}),
        ({"chip": "GC2", "tiles": 100}, {"chip": chips.MK1.with_tiles(100)}),
        ({"tiles": 1472}, {"chip": chips.MK2}),
        ({"io_tiles": 32}, {"io_tiles": 32}),
        ({"recompute": True}, {"recompute": True}),
        ({"partials": "half"}, {"convolution_partials": "float16", "matmul_partials": "float16"}),
        (
            {"proportion": 0.1},
            {f"{k}_proportion": 0.1 for k in ("convolution", "matmul", "slice")},
        ),
    ],
)
def test_changed_settings_are_planned(changes, expected):
    _equals(_one(changes), planning.plan(WORKLOAD, SETTINGS.replace(**expected)))


def test_replicas_multiply_items_and_ipus():
    outcome = _one({"replicas": 4})
    assert outcome.ipus == 4
    assert outcome.items_per_second == pytest.approx(4 * 32 / outcome.seconds)
    low, high = outcome.range_per_second
    assert low < outcome.items_per_second < high
    assert "{:,.0f} - {:,.0f}".format(*outcome.range_per_second) in what_if.to_text([outcome])


def test_a_changed_batch_is_planned():
    outcome = _one({"batch": 64})
    _equals(outcome, planning.plan(batch.with_batch(WORKLOAD, 64), SETTINGS))
    assert outcome.items_per_second == pytest.approx(64 / outcome.seconds)
    assert outcome.label is not Label.EXACT


def test_stages_are_planned_as_the_split():
    outcome = _one({"stages": 3, "schedule": "SEQUENTIAL", "count": 5})
    split = stage_split.split(WORKLOAD, SETTINGS, 3, "sequential", 5)
    _equals(outcome, planning.plan(split.workload, SETTINGS))
    assert outcome.ipus == 4  # devices have 1, 2, 4 ... IPUs
    assert 0.5 < outcome.bubble_share < 1
    assert outcome.changes == {"stages": 3, "schedule": "Sequential", "count": 5}


def test_count_and_schedule_of_a_pipeline():
    workload = pipeline(2, PipelineSchedule.Grouped, count=8)
    small, large = what_if.outcomes(workload, SETTINGS, {"count": [8, 64]})
    _equals(small, planning.plan(workload, SETTINGS))
    _equals(large, planning.plan(pipeline(2, PipelineSchedule.Grouped, count=64), SETTINGS))
    assert large.bubble_share < small.bubble_share
    assert large.items_per_second > small.items_per_second
    grouped, sequential = what_if.outcomes(
        workload, SETTINGS, {"schedule": ["grouped", "sequential"]}
    )
    assert sequential.bubble_share > grouped.bubble_share
    assert sequential.worst < grouped.worst  # no stash


def test_recomputation_of_a_pipeline_is_planned():
    workload = pipeline(4, batch=256)
    without, again = what_if.outcomes(workload, SETTINGS, {"recompute": [False, True]})
    _equals(without, planning.plan(workload, SETTINGS))
    assert again.worst < without.worst
    assert again.cycles > without.cycles


def test_every_combination_is_planned_in_order():
    found = what_if.outcomes(WORKLOAD, SETTINGS, {"tiles": [32, 64], "batch": [16, 32, 64]})
    assert [(o.changes["tiles"], o.changes["batch"]) for o in found] == [
        (32, 16), (32, 32), (32, 64), (64, 16), (64, 32), (64, 64),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "programs"),
    [
        ({"tiles": [32, 64], "io_tiles": [0, 4], "partials": ["half", "float"]}, 1),
        ({"batch": [16, 32], "tiles": [32, 64]}, 2),
        ({"replicas": [1, 2, 4], "tiles": [32, 64]}, 2),
        # Twice for each cut: with each layer as a stage to see what it costs, and as it is cut.
        ({"stages": [1, 2], "tiles": [32, 64]}, 8),
    ],
)
def test_combinations_that_make_one_program_place_it_once(monkeypatch, changes, programs):
    placed = []
    place = placed_workload.place
    monkeypatch.setattr(placed_workload, "place", lambda *given: placed.append(1) or place(*given))
    found = what_if.outcomes(WORKLOAD, SETTINGS, changes)
    assert len(placed) == programs
    for outcome in found:
        assert outcome == _one(outcome.changes)


def test_combination_that_is_not_possible_spoils_no_other():
    found = what_if.outcomes(WORKLOAD, SETTINGS, {"io_tiles": [64, 4], "batch": [16, 32]})
    assert [bool(outcome.error) for outcome in found] == [True, True, False, False]
    assert found[3] == _one({"io_tiles": 4, "batch": 32})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tiles": 2000}, "has 1472 tiles"),
        ({"chip": "mk1", "tiles": 1300}, "has 1216 tiles"),
        ({"io_tiles": 64}, "none is left to compute"),
        ({"schedule": "grouped"}, "has no pipeline"),
        ({"schedule": "grouped", "count": 8}, "say how many stages"),
        ({"stages": 9}, "received 9 stages for 4 layer"),
        ({"stages": 2, "count": 3}, "multiple of 4; received 3"),
        ({"batch": 33}, None),
    ],
)
def test_what_is_not_possible_is_an_outcome(changes, message):
    outcome = _one(changes)
    if message is None:
        assert outcome.error == ""
        return
    assert message in outcome.error
    assert outcome.fits is None


def test_interleaved_needs_an_ipu_for_each_stage():
    shared = pipeline(4, PipelineSchedule.Grouped, devices=(0, 1, 1, 0))
    outcome = _one({"schedule": "interleaved"}, shared)
    assert "needs an IPU for each stage, but 4 stages are on 2 IPUs" in outcome.error


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speed": [2]}, "Unknown change 'speed': choose from chip, tiles"),
        ({"tiles": []}, "Expected a list of values for tiles"),
        ({"chip": "bow"}, "Expected a list of values for chip, received 'bow'"),
        ({"chip": ["mk3"]}, "Unknown IPU chip 'mk3'"),
        ({"schedule": ["none"]}, "choose one of grouped, interleaved, sequential"),
        ({"tiles": [0]}, "tiles is a whole number from 1; received 0"),
        ({"io_tiles": [-2]}, "io_tiles is a whole number from 0"),
        ({"batch": [2.5]}, "batch is a whole number"),
        ({"recompute": [1]}, "recompute is True or False"),
        ({"proportion": [2]}, "from 0 to 1"),
        ({"partials": ["int8"]}, "float16 or float32"),
        ({"batch": list(range(1, 30)), "tiles": list(range(1, 30))}, "at most 256.*841"),
    ],
)
def test_unknown_changes_and_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        what_if.outcomes(WORKLOAD, SETTINGS, changes)


def test_outcomes_are_a_table_as_text():
    found = what_if.outcomes(WORKLOAD, SETTINGS, {"recompute": [False], "stages": [1, 2, 9]})
    lines = what_if.to_text(found).splitlines()
    assert lines[0].split()[:4] == ["recompute", "stages", "IPUs", "worst"]
    assert lines[1].split()[:3] == ["no", "1", "1"]
    assert f"{found[1].worst:,} B" in lines[2]
    assert "not possible [1]" in lines[3]
    assert lines[4].startswith("[1] Expected at most as many stages as layers")
    assert len({line.index("worst") for line in lines[:1]}) == 1
    assert what_if.to_text(()) == ""


def test_outcomes_are_plain_data_as_json():
    found = what_if.outcomes(WORKLOAD, SETTINGS, {"stages": [2, 9]})
    first, second = json.loads(json.dumps(what_if.to_dicts(found)))
    assert first["changes"] == {"stages": 2}
    assert first["worst"] == found[0].worst
    assert first["label"] in ("modelled", "assumed")
    assert second["fits"] is None
    assert second["error"]


def test_every_name_is_explained():
    assert set(what_if.NAMES) == {
        "chip", "tiles", "replicas", "batch", "stages", "schedule", "count", "recompute",
        "io_tiles", "proportion", "partials", "instances",
    }  # fmt: skip


@pytest.mark.parametrize(("ipus", "reserved"), [(0, 1), (1, 1), (2, 2), (3, 4), (9, 16)])
def test_reserved_ipus_are_a_power_of_two(ipus, reserved):
    assert throughput.reserved_ipus(ipus) == reserved
