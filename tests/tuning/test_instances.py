"""Tests of programs of several instances: replicas, IPUs, and times of collectives."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning import what_if
from tensorflow_ipu.util import op_names
from tests.support.planner import workloads

STEP = workloads.training_step(width=64, layers=2)
ONE = Settings()


def outcomes(now: Settings = ONE, **changes):
    return what_if.outcomes(STEP, now, changes)


def figures(outcome):
    """All of an outcome but how it was asked for."""
    return dataclasses.replace(outcome, changes={})


def test_one_instance_changes_nothing():
    (alone,) = outcomes()
    (one,) = outcomes(instances=[1])
    assert figures(one) == figures(alone)
    for replicas in (2, 16, 128):
        (without,) = outcomes(replicas=[replicas])
        (with_one,) = outcomes(replicas=[replicas], instances=[1])
        assert figures(with_one) == figures(without)


def test_each_instance_has_replicas_that_one_has_now():
    found = outcomes(ONE.replace(replicas=4), instances=[1, 2, 4])
    assert [outcome.ipus for outcome in found] == [4, 8, 16]
    for outcome, replicas in zip(found, (4, 8, 16)):
        plan = planning.plan(STEP, ONE.replace(replicas=replicas))
        assert outcome.cycles == plan.timeline.cycles
        items = (STEP.batch or 1) * replicas / plan.timeline.seconds
        assert outcome.items_per_second == pytest.approx(items)


def test_instance_gradients_are_summed_like_replicas():
    (several,) = outcomes(instances=[8])
    (replicas,) = outcomes(replicas=[8])
    assert figures(several) == figures(replicas)
    each = collectives.all_reduce(64 * 64 * 4, 8, 1, ONE.chip).cycles
    assert several.cycles == pytest.approx(outcomes()[0].cycles + 2 * each, rel=0.01)


def test_number_of_replicas_is_that_of_all_instances():
    (found,) = outcomes(ONE.replace(replicas=4, instances=2), replicas=[8], instances=[4])
    assert found.ipus == 8


@pytest.mark.parametrize(
    "now, changes, text",
    [
        (ONE, {"replicas": [3], "instances": [2]}, "3 replicas .* among 2 instances"),
        (ONE.replace(replicas=4, instances=4), {"replicas": [2]}, "2 replicas .* multiple of 4"),
    ],
)
def test_replicas_that_cannot_be_divided_are_not_possible(now, changes, text):
    (found,) = outcomes(now, **changes)
    with pytest.raises(ValueError, match=text):
        raise ValueError(found.error)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "2"])
def test_other_numbers_are_errors(value):
    with pytest.raises(ValueError, match="instances is a whole number from 1"):
        outcomes(instances=[value])


def test_beyond_a_pod_figures_are_assumed():
    """The latency of gateways is, so transfers through them are."""
    cost = {n: collectives.all_reduce(1024, n, 1, ONE.chip).label for n in (64, 65)}
    assert cost == {64: Label.MODELLED, 65: Label.ASSUMED}


@pytest.mark.parametrize("name", sorted(op_names.LINK_COLLECTIVES))
@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    num_bytes=st.integers(1, 1 << 30),
    local=st.sampled_from([1, 2, 4, 8, 16]),
    ipus=st.sampled_from([1, 2, 4, 8, 16]),
    instances=st.integers(1, 64),
)
def test_a_collective_takes_no_less_with_more_instances(name, num_bytes, local, ipus, instances):
    fewer, more = (
        collectives.FORMULAS[name](num_bytes, local * count, ipus, ONE.chip).cycles
        for count in (instances, instances + 1)
    )
    assert more >= fewer * (1 - 1e-12)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(local=st.sampled_from([1, 3, 16]), instances=st.integers(1, 40))
def test_a_launch_takes_no_less_with_more_instances(local, instances):
    fewer, more = outcomes(ONE.replace(replicas=local), instances=[instances, instances + 1])
    assert more.cycles >= fewer.cycles * (1 - 1e-12)
    assert more.worst == fewer.worst or local * instances == 1
