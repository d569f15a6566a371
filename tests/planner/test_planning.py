"""Tests of a Planner: it plans any Settings as a new one does, and shares work among them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK1
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.memory import lifetimes
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import pipeline, pipelines, training_step, workloads

FAST = settings(max_examples=8, derandomize=True, deadline=None)
SMALL = Settings(chip=BOW.with_tiles(8))
VARIANTS = (
    SMALL,
    SMALL.replace(recompute=True),
    SMALL.replace(chip=MK1.with_tiles(5), replicas=2),
    SMALL.replace(io_tiles=2, place_ops_on_io_tiles=True, matmul_partials="float16"),
    SMALL.replace(ordering="POST_ORDER"),
    SMALL.replace(offload_activations=True, outlining=False),
)
MOVED = tuple(SMALL.replace(stage_devices=(1, 0), recompute=again) for again in (False, True))


def plain(value: Any) -> Any:
    """A plan as data that can be compared."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.tolist())
    if dataclasses.is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


@given(workload=st.one_of(workloads(), pipelines()), order=st.permutations(VARIANTS))
@FAST
def test_settings_leave_no_trace_in_a_planner(workload, order):
    planner = Planner(workload)
    for wanted in order:
        made, alone = planner.plan(wanted), planning.plan(workload, wanted)
        assert plain(made.memory) == plain(alone.memory)
        assert plain(made.timeline) == plain(alone.timeline)


@pytest.mark.parametrize("wanted", [*VARIANTS, *MOVED], ids=range(len(VARIANTS) + len(MOVED)))
def test_a_plan_is_its_parts(wanted):
    workload = pipeline(2, width=33)
    made = planning.plan(workload, wanted)
    assert (made.workload, made.settings) == (workload, wanted)
    assert plain(made.memory) == plain(Planner(workload).memory(wanted))
    assert plain(made.timeline) == plain(Planner(workload).timeline(wanted))
    assert len(Planner(workload).mappings(wanted)) == len(made.memory)


@pytest.fixture
def done(monkeypatch):
    """Returns the names of the analyses of each program, in order."""
    found = []

    def watch(module, name):
        whole = getattr(module, name)

        def watched(*arguments):
            found.append(f"{module.__name__.rpartition('.')[2]}.{name}")
            return whole(*arguments)

        monkeypatch.setattr(module, name, watched)

    watch(placed_workload, "find")
    watch(placed_workload, "relocated")
    watch(placed_workload, "sections_of")
    watch(placed_workload.access, "find")
    watch(lifetimes, "orders_of")
    return found


def test_memory_and_time_share_one_placement(done):
    planning.plan(training_step(64, 8, 2), SMALL.replace(recompute=True))
    assert sorted(done) == sorted(set(done))
    assert len(done) == 5


def test_only_stages_and_algorithm_change_what_is_shared(done):
    planner = Planner(pipeline(2))
    planner.plan(SMALL)
    first = len(done)
    for same in (SMALL.replace(io_tiles=2), SMALL.replace(recompute=True, chip=MK1)):
        planner.plan(same)
    assert len(done) == first
    planner.plan(SMALL.replace(ordering="LOOK_AHEAD"))
    assert done[first:] == ["lifetimes.orders_of"]
    planner.plan(MOVED[0])
    assert len(done) == 2 * first + 1


@pytest.mark.parametrize("what", ["plan", "memory", "mappings", "timeline"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"io_tiles": 8}, "of its 8 tiles 8 are I/O tiles: have fewer"),
        ({"stage_devices": (0, 1, 2)}, "the program has 2; received 3"),
    ],
)
def test_settings_that_do_not_suit_the_program(what, change, message):
    with pytest.raises(ValueError, match=message):
        getattr(Planner(pipeline(2)), what)(SMALL.replace(**change))


def test_an_unknown_algorithm():
    with pytest.raises(ValueError, match="The ordering must be one of CHOOSE_BEST"):
        planning.plan(training_step(), SMALL.replace(ordering="BEST"))
