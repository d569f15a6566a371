"""Invariants of the memory of any program."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import pipelines, workloads

FAST = settings(max_examples=25, derandomize=True, deadline=None)
PROGRAMS = st.one_of(workloads(), pipelines())
CHIPS = st.sampled_from(chips.CHIPS)


def replaced(workload, **changes):
    """The program with all variables changed."""
    variables = tuple(v._replace(**changes) for v in workload.variables)
    return dataclasses.replace(workload, variables=variables)


@given(workload=PROGRAMS, chip=CHIPS)
@FAST
def test_each_byte_is_on_a_tile_once(workload, chip):
    for found in Planner(workload).memory(Settings(chip=chip)):
        expected = dict.fromkeys(("weight", "optimizer state", "accumulator", "other"), 0)
        for variable in workload.variables:
            if variable.ipu == found.ipu and not variable.offloaded:
                expected[variable.role] += variable.share
        held = {c.name: c.total for c in found.categories}
        assert held.get("variables", 0) == expected["weight"] + expected["other"]
        assert held.get("optimizer state", 0) == expected["optimizer state"]
        assert held.get("gradient accumulators", 0) == expected["accumulator"]
        assert np.array_equal(found.peak, sum(c.tiles for c in found.categories))
        assert all((c.tiles >= 0).all() for c in found.categories)
        always = {c.name for c in found.categories if c.always_live}
        listed = [entry for entry in found.at_peak if entry.category in always]
        assert sum(entry.num_bytes for entry in listed) == found.always_live


@given(workload=PROGRAMS, chip=CHIPS)
@FAST
def test_peaks_are_at_least_what_is_always_live(workload, chip):
    for found in Planner(workload).memory(Settings(chip=chip)):
        always = sum(c.tiles for c in found.categories if c.always_live)
        assert (found.peak >= always).all()
        assert found.worst_tile == 0 or found.peak[0] == found.worst_bytes
        most = int(found.live_worst.max(initial=0))
        assert found.worst_bytes == always[0] + most
        if found.peak_op is not None:
            place = int(np.flatnonzero(found.live_ops == found.peak_op)[0])
            assert found.live_worst[place] == most
            entries = [e for e in found.at_peak if e.category not in _always(found)]
            assert sum(e.num_bytes for e in entries) == found.live_bytes[place]


def _always(found):
    return {c.name for c in found.categories if c.always_live}


@given(workload=PROGRAMS, tiles=st.integers(1, 1471), more=st.integers(1, 700), io=st.booleans())
@FAST
def test_more_tiles_never_raise_the_worst_tile(workload, tiles, more, io):
    few = chips.MK2.with_tiles(min(tiles + 8, 1472))
    many = chips.MK2.with_tiles(min(tiles + 8 + more, 1472))
    io_tiles = 4 if io else 0
    plans = [Planner(workload).memory(Settings(chip=c, io_tiles=io_tiles)) for c in (few, many)]
    for before, after in zip(*plans):
        assert after.worst_bytes <= before.worst_bytes


@given(workload=PROGRAMS)
@FAST
def test_recomputation_never_raises_memory(workload):
    plans = [Planner(workload).memory(Settings(recompute=again)) for again in (False, True)]
    for before, after in zip(*plans):
        assert after.worst_bytes <= before.worst_bytes
        stash = [found.category("stash") for found in (before, after)]
        assert stash[1] is None or stash[1].total <= stash[0].total


@given(workload=PROGRAMS, split=st.sampled_from([2, 3, 16]))
@FAST
def test_offloading_and_splitting_never_raise_memory(workload, split):
    whole = Planner(replaced(workload, offloaded=False, split=1)).memory(Settings())
    for changes in ({"offloaded": True}, {"split": split}, {"offloaded": True, "split": split}):
        for before, after in zip(whole, Planner(replaced(workload, **changes)).memory(Settings())):
            assert after.worst_bytes <= before.worst_bytes
            assert after.total <= before.total


@given(workload=PROGRAMS, proportions=st.lists(st.floats(0.05, 1.0), min_size=2, max_size=2))
@FAST
def test_smaller_proportions_never_raise_memory(workload, proportions):
    plans = [
        Planner(workload).memory(
            Settings(convolution_proportion=value, matmul_proportion=value, slice_proportion=value),
        )
        for value in sorted(proportions)
    ]
    for small, large in zip(*plans):
        assert small.worst_bytes <= large.worst_bytes


@given(workload=PROGRAMS)
@FAST
def test_plans_are_the_same_each_time(workload):
    for one, other in zip(*(Planner(workload).memory(Settings()) for _ in range(2))):
        assert np.array_equal(one.peak, other.peak) and one.at_peak == other.at_peak
