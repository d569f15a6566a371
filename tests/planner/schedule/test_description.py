"""Tests of descriptions of pipelines: their text, errors and JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
import tensorflow as tf
from hypothesis import given, settings

from tensorflow_ipu.planner.schedule import (
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
    build,
    check,
    fewest,
)
from tests.planner.schedule import strategies


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


# --- What is refused when a pipeline is compiled, row by row of the table of schedules ---


def _pipeline(stages, count, schedule, **options):
    return PipelineDescription(
        tuple(range(stages)), count, schedule=PipelineSchedule[schedule], **options
    )


@pytest.mark.parametrize("stages", [2, 3, 4, 7])
@pytest.mark.parametrize(
    "schedule, training, factor",
    [
        ("Grouped", True, 2),
        ("Grouped", False, 1),
        ("Interleaved", True, 1),
        ("Interleaved", False, 1),
        ("Sequential", True, None),
        ("Sequential", False, None),
    ],
)
def test_counts_that_each_schedule_accepts(stages, schedule, training, factor):
    multiple = factor * stages if factor else 1
    for count in range(4 * stages + 2):
        description = _pipeline(stages, count, schedule, training=training)
        if count and count % multiple == 0:
            check(description)
        else:
            with pytest.raises(tf.errors.FailedPreconditionError):
                check(description)


@pytest.mark.parametrize(
    "phrase",
    [
        "The pipeline depth of the pipeline must be a multiple of 8,",
        "The number of iterations of the pipeline must be a multiple of 8,",
        "it is 12",
        "4 stages in the Grouped schedule",
        "Set gradient_accumulation_count to 16,",
    ],
)
def test_the_error_says_what_to_do(phrase):
    with pytest.raises(tf.errors.FailedPreconditionError, match=phrase):
        check(_pipeline(4, 12, "Grouped"))


@pytest.mark.parametrize(
    "schedule, training, count, legal",
    [
        ("Grouped", True, 4, False),
        ("Grouped", True, 8, True),
        ("Grouped", False, 2, False),
        ("Grouped", False, 4, True),
        # The other schedules do not overlap.
        ("Interleaved", True, 2, True),
        ("Sequential", True, 1, True),
    ],
)
def test_overlapped_io_needs_two_mini_batches_more(schedule, training, count, legal):
    description = _pipeline(2, count, schedule, training=training, io_overlap=True)
    if legal:
        check(description)
        return
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"and at least {count + 2}"):
        check(description)


@pytest.mark.parametrize("mode", [None, *RecomputationMode], ids=str)
@pytest.mark.parametrize("schedule", [mode.name for mode in PipelineSchedule])
@pytest.mark.parametrize("training", [True, False])
def test_recomputation_modes_are_refused_where_schedule_lacks_them(schedule, mode, training):
    refused = {
        ("Sequential", RecomputationMode.RecomputeThenBackpropagate),
        ("Interleaved", RecomputationMode.RecomputeAndBackpropagateInterleaved),
    }
    description = _pipeline(2, 4, schedule, recomputation=mode, training=training)
    if (schedule, mode) not in refused or not training:
        check(description)
        return
    with pytest.raises(tf.errors.UnimplementedError, match="recomputation mode") as error:
        check(description)
    assert mode.name in str(error.value) and schedule in str(error.value)


@pytest.mark.parametrize(
    ("schedule", "options", "count"),
    [
        ("Grouped", {}, 8),
        ("Grouped", {"training": False}, 4),
        ("Grouped", {"io_overlap": True}, 16),
        ("Interleaved", {}, 4),
        ("Sequential", {}, 1),
    ],
)
def test_the_fewest_are_accepted(schedule, options, count):
    description = _pipeline(4, 0, schedule, **options)
    assert fewest(description) == count
    check(_pipeline(4, count, schedule, **options))


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("training", [False, True])
def test_any_filling_count_suffices_where_allowed(stages, training):
    description = _pipeline(stages, stages + 1, "Grouped", training=training, any_count=True)
    check(description)
    made = build(description)
    of_stage = [made.table[made.table["stage"] == stage] for stage in range(stages)]
    forward = [rows[rows["phase"] == 0]["mini_batch"].tolist() for rows in of_stage]
    assert forward == [list(range(stages + 1))] * stages
    with pytest.raises(tf.errors.FailedPreconditionError):
        check(_pipeline(stages, stages - 1, "Grouped", training=training, any_count=True))
