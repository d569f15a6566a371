"""Descriptions of pipelines: what they say, what they refuse, and their JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings

from tensorflow_ipu.schedule import (
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
)
from tests.schedule import strategies


@settings(derandomize=True, deadline=None)
@given(strategies.descriptions())
def test_json_gives_the_same_description(description):
    assert PipelineDescription.from_json(description.to_json()) == description


def test_every_option_makes_a_round_trip_through_json():
    description = PipelineDescription(
        (0, (1, 2)),
        8,
        training=False,
        schedule=PipelineSchedule.Interleaved,
        repeat_count=3,
        recomputation=RecomputationMode.Auto,
        io_overlap=True,
    )
    text = description.to_json()
    assert PipelineDescription.from_json(text.encode()) == description
    fields = json.loads(text)
    assert fields["schedule"] == "Interleaved"
    assert fields["recomputation"] == "Auto"
    assert fields["device_mapping"] == [0, [1, 2]]
    assert sorted(fields) == sorted(field.name for field in dataclasses.fields(description))


def test_lists_are_as_good_as_tuples():
    assert PipelineDescription([0, [1, 2]], 4) == PipelineDescription((0, (1, 2)), 4)


def test_stages_and_ipus_are_counted():
    description = PipelineDescription((3, (2, 0, 2), 3), 4, batch_serialization_iterations=5)
    assert description.stages == 3
    assert description.ipus == (0, 2, 3)
    assert description.ipus_of_stages == ((3,), (0, 2), (3,))
    assert description.mini_batches == 20


@pytest.mark.parametrize(
    "schedule, mode, training, expected",
    [
        ("Grouped", "Auto", True, "RecomputeThenBackpropagate"),
        ("Interleaved", "Auto", True, "RecomputeThenBackpropagate"),
        ("Sequential", "Auto", True, "RecomputeAndBackpropagateInterleaved"),
        ("Sequential", "Auto", False, None),
        (
            "Grouped",
            "RecomputeAndBackpropagateInterleaved",
            True,
            "RecomputeAndBackpropagateInterleaved",
        ),
        ("Grouped", None, True, None),
    ],
)
def test_the_recomputation_mode_that_is_used(schedule, mode, training, expected):
    description = PipelineDescription(
        (0, 1),
        4,
        training=training,
        schedule=PipelineSchedule[schedule],
        recomputation=mode and RecomputationMode[mode],
    )
    assert description.resolved_recomputation is (expected and RecomputationMode[expected])


@pytest.mark.parametrize(
    "changes, error, phrase",
    [
        ({"device_mapping": ()}, ValueError, "give an IPU for each stage"),
        ({"device_mapping": (0, ())}, ValueError, "Each stage must be mapped to an IPU"),
        ({"device_mapping": (0, -1)}, ValueError, "Each stage must be mapped to an IPU"),
        ({"device_mapping": (0, (1, (2,)))}, ValueError, "Each stage must be mapped to an IPU"),
        ({"count": -1}, ValueError, "count of a pipeline must be at least 0, got -1"),
        ({"repeat_count": 0}, ValueError, "repeat_count of a pipeline must be at least 1"),
        ({"batch_serialization_iterations": 0}, ValueError, "must be at least 1, got 0"),
        ({"schedule": "Grouped"}, TypeError, "schedule must be a PipelineSchedule"),
        ({"recomputation": "Auto"}, TypeError, "recomputation must be a RecomputationMode"),
    ],
)
def test_what_a_description_refuses(changes, error, phrase):
    with pytest.raises(error, match=phrase):
        PipelineDescription(**{"device_mapping": (0, 1), "count": 4, **changes})


@pytest.mark.parametrize(
    "text",
    ["[1]", '{"count": 4}', '{"device_mapping": [0], "count": 1, "depth": 2}', "{",
     '{"device_mapping": [0], "count": 1, "schedule": "Fast"}'],
)  # fmt: skip
def test_what_is_not_the_json_of_a_description(text):
    with pytest.raises(ValueError):
        PipelineDescription.from_json(text)
