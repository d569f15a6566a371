"""Tests of comparisons, with numbers made by hand."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.plan import LiveBuffer
from tensorflow_ipu.profiler.comparison import (
    Difference,
    Snapshot,
    at_peaks,
    changes_to_dict,
    differences,
    format_changes,
)
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans

BEFORE = Snapshot({"cycles": 100, "tiles": 10}, {"conv": {"cycles": 60}, "a": {"ops": 1}})
AFTER = Snapshot({"cycles": 150, "tiles": 10}, {"conv": {"cycles": 90}, "b": {"ops": 2}})

_NAMES = st.sampled_from(["cycles", "bytes", "ops"])
_NUMBERS = st.dictionaries(_NAMES, st.integers(0, 10**12))
_SNAPSHOTS = st.builds(Snapshot, _NUMBERS, st.dictionaries(st.sampled_from("abc"), _NUMBERS))


def test_finds_what_differs_in_order_of_second():
    assert differences(BEFORE, AFTER) == (
        Difference("", "cycles", 100, 150),
        Difference("conv", "cycles", 60, 90),
        Difference("b", "ops", None, 2),
        Difference("a", "ops", 1, None),
    )


@settings(derandomize=True, max_examples=50, deadline=None)
@given(_SNAPSHOTS)
def test_a_snapshot_does_not_differ_from_itself(snapshot):
    assert differences(snapshot, snapshot) == ()


@settings(derandomize=True, max_examples=50, deadline=None)
@given(_SNAPSHOTS, _SNAPSHOTS)
def test_the_other_way_round_changes_signs(first, second):
    forth = {(c.layer, c.metric): c.growth for c in differences(first, second)}
    back = {(c.layer, c.metric): -c.growth for c in differences(second, first)}
    assert forth == back


def test_text_has_a_line_for_each_change():
    lines = format_changes(differences(BEFORE, AFTER)).splitlines()
    assert len(lines) == 5
    assert lines[1].split() == ["(program)", "cycles", "100", "150", "+50", "+50.0", "%"]
    assert lines[3].split() == ["b", "ops", "-", "2", "+2"]


def test_text_of_no_change():
    assert format_changes(()) == "no differences"


def test_json_has_layers_and_growth():
    first, *_, last = changes_to_dict(differences(BEFORE, AFTER))
    assert first == {
        "layer": None,
        "metric": "cycles",
        "before": 100,
        "after": 150,
        "growth": 50,
    }
    assert last["layer"] == "a" and last["after"] is None


@pytest.mark.parametrize("before, share", [(None, None), (0, None), (50, 1.0)])
def test_the_share_of_growth_is_relative_to_before(before, share):
    assert Difference("", "cycles", before, 100).share == share


def test_peak_tensors_match_without_scope_numbers():
    def report_of(sizes):
        memory = dataclasses.replace(
            plans.memory(0),
            at_peak=tuple(
                LiveBuffer(None, name, "temporaries", size, "") for name, size in sizes.items()
            ),
        )
        return Report.from_plan(dataclasses.replace(plans.plan(), memory=(memory,)))

    before = report_of({"net/a_1:0": 5, "same": 7, "old": 1})
    after = report_of({"net_1/a_1:0": 9, "same": 7, "new": 2})
    found = [(each.metric, each.before, each.after) for each in at_peaks(before, after)]
    assert found == [("net_1/a_1:0", 5, 9), ("new", None, 2), ("old", 1, None), ("same", 7, 7)]
