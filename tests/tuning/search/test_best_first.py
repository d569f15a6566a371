"""Tests of the search: against all combinations of small spaces, and invariants."""

from __future__ import annotations

import itertools

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.search.best_first import Search
from tensorflow_ipu.tuning.search.candidates import Candidates
from tensorflow_ipu.tuning.search.choices import SUBJECTS, Choices, Space, Trial
from tests.support.planner.layered_workloads import dense
from tests.support.planner.workloads import pipeline

MOMENTUM = dense([256] * 13, batch=16)
LARGE_BATCH = dense([256, 256, 256], batch=2048)
# Program, tiles of an IPU, IPUs, what may be changed.
SPACES = {
    "variables": (MOMENTUM, 3, 4, ("precision", "optimizer_state", "stages", "partials")),
    "activations": (
        LARGE_BATCH,
        16,
        2,
        ("precision", "matmul_proportion", "replicas", "optimizer_state"),
    ),
    "pipeline": (
        pipeline(4, batch=256, width=128),
        16,
        4,
        ("recompute", "activations", "schedule", "stages"),
    ),
}


def _search(workload, tiles, ipus, subjects=SUBJECTS, replicas=1, **options):
    settings = Settings(chip=chips.MK2.with_tiles(tiles), replicas=replicas)
    candidates = Candidates(workload, settings, ipus, fewer=True)
    space = Space(workload, settings, candidates.structure, ipus, subjects)
    plan = planning.plan(workload, settings)
    return Search(plan, space, candidates, **options), space, candidates


def _all(space, candidates, subjects):
    """Plans all combinations of values of a few subjects."""
    values = {name: [None] for name in subjects}
    # Which values there are depends on other choices: those of two steps show them all.
    for _, first in space.neighbors(Choices()):
        for _, second in [("", first), *space.neighbors(first)]:
            for name, value in second.items():
                if value not in values[name]:
                    values[name].append(value)
    for combination in itertools.product(*values.values()):
        choices = Choices(**dict(zip(values, combination)))
        try:
            made = candidates.candidate(choices)
        except ValueError:
            continue
        yield Trial(choices, made.plan())


@pytest.mark.parametrize("name", SPACES)
def test_the_best_is_that_of_all_combinations(name):
    """With plans for all, and with fewer: the order in which they are made finds it early."""
    workload, tiles, ipus, subjects = SPACES[name]
    _, space, candidates = _search(workload, tiles, ipus, subjects)
    fitting = [trial.speed for trial in _all(space, candidates, subjects) if trial.fits]
    assert fitting
    for plans in (1000, 40):
        search, _, _ = _search(workload, tiles, ipus, subjects)
        search.run(plans)
        assert search.best().speed == pytest.approx(max(fitting), rel=1e-9)


@pytest.mark.parametrize(
    ("workload", "tiles", "ipus", "replicas"),
    [
        (MOMENTUM, 4, 1, 1),
        (MOMENTUM, 3, 4, 2),
        (MOMENTUM, 30, 4, 4),
        (LARGE_BATCH, 8, 2, 1),
        (pipeline(4, batch=256, width=128), 16, 8, 2),
    ],
)
def test_found_plan_holds_when_planned_anew(workload, tiles, ipus, replicas):
    search, _, _ = _search(workload, tiles, ipus, replicas=replicas)
    found = search.run(40)
    start = found.trials.get(Choices())
    ranked = search.ranked()
    best = search.best()
    assert ranked and ranked[0] is best
    for trial in ranked[:5]:
        again = planning.plan(trial.plan.workload, trial.plan.settings)
        assert again.fits
        assert again.fullest.worst_bytes == trial.worst
        assert again.timeline.cycles == pytest.approx(trial.plan.timeline.cycles)
        assert trial.ipus <= ipus
    if start is not None and start.fits:
        assert best.speed >= start.speed
    singles = [t for t in found.trials.values() if len(t.choices.made()) == 1 and t.fits]
    assert all(best.speed >= single.speed for single in singles)


def test_a_search_finds_the_same_each_time():
    runs = [_search(MOMENTUM, 3, 4)[0].run(30) for _ in range(2)]
    one, two = ([(c, t.worst, t.speed) for c, t in run.trials.items()] for run in runs)
    assert one == two
    assert runs[0].failures == runs[1].failures


@pytest.mark.parametrize("plans", [0, 1, 10])
def test_no_more_plans_are_made_than_allowed(plans):
    search, _, _ = _search(MOMENTUM, 3, 4)
    found = search.run(plans)
    assert len(found.trials) <= plans + 1  # the program as it is has its plan
    assert found.left > 0


def test_update_is_of_no_more_items_than_allowed():
    free, _, _ = _search(MOMENTUM, 3, 4)
    free.run(30)
    bound, _, _ = _search(MOMENTUM, 3, 4, most_items=256)
    bound.run(30)
    assert bound.best().update_items <= 256 < free.best().update_items


def test_single_changes_of_every_subject_come_first():
    """Half of the plans, in turns: not all batch sizes before anything else."""
    search, space, _ = _search(MOMENTUM, 3, 4)
    found = search.run(24)
    tried = [*found.trials, *found.failures.values()]
    subjects = {choices.made()[0] for _, choices in space.neighbors(Choices())}
    assert subjects <= {choices.made()[0] for choices in tried if len(choices.made()) == 1}


def test_too_few_ipus_leave_fitting_choices():
    """Of four replicas two can be had."""
    search, _, _ = _search(MOMENTUM, 30, 2, replicas=4)
    found = search.run(20)
    assert all(trial.ipus <= 2 for trial in search.ranked())
    assert search.best() is not None
    assert found.trials
