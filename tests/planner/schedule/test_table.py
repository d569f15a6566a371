"""Tests of small schedules as text, against tables written by hand from their definitions."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

import pytest

from tensorflow_ipu.planner.schedule import (
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
    build,
)

_GROUPED = PipelineSchedule.Grouped


_INTERLEAVED = PipelineSchedule.Interleaved


_SEQUENTIAL = PipelineSchedule.Sequential


_THEN = RecomputationMode.RecomputeThenBackpropagate


_AUTO = RecomputationMode.Auto


_TABLES = {
    # All forward, all backward, and so on; the last stage turns a mini-batch round at once.
    "grouped of 2": (
        {"device_mapping": (0, 1), "count": 4},
        """
        IPU 0 F0 F1 .  F2 B0 F3 B1 .  B2 B3 U
        IPU 1 .  F0 B0 F1 B1 F2 B2 F3 B3 .  U
        """,
    ),
    "grouped of 3": (
        {"device_mapping": (0, 1, 2), "count": 6},
        """
        IPU 0 F0 F1 F2 .  F3 .  F4 B0 F5 B1 .  B2 .  B3 B4 B5 U
        IPU 1 .  F0 F1 .  F2 B0 F3 B1 F4 B2 F5 B3 .  B4 B5 .  U
        IPU 2 .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 .  .  U
        """,
    ),
    # As above, but a slot in which a stage other than the last goes backward has two steps.
    "grouped with recomputation first": (
        {"device_mapping": (0, 1), "count": 4, "recomputation": _THEN},
        """
        IPU 0 F0 F1 .  F2 R0 B0 F3 R1 B1 .  R2 B2 R3 B3 U
        IPU 1 .  F0 B0 F1 B1 .  F2 B2 .  F3 B3 .  .  .  U
        """,
    ),
    # A stage goes forward while its neighbours go backward.
    "interleaved of 2": (
        {"device_mapping": (0, 1), "count": 2, "schedule": _INTERLEAVED},
        """
        IPU 0 F0 .  F1 B0 .  B1 U
        IPU 1 .  F0 B0 F1 B1 .  U
        """,
    ),
    "interleaved of 3": (
        {"device_mapping": (0, 1, 2), "count": 3, "schedule": _INTERLEAVED},
        """
        IPU 0 F0 .  F1 .  F2 B0 .  B1 .  B2 U
        IPU 1 .  F0 .  F1 B0 F2 B1 .  B2 .  U
        IPU 2 .  .  F0 B0 F1 B1 F2 B2 .  .  U
        """,
    ),
    # One mini-batch after the other.
    "sequential of 2": (
        {"device_mapping": (0, 1), "count": 2, "schedule": _SEQUENTIAL},
        """
        IPU 0 F0 .  .  B0 F1 .  .  B1 U
        IPU 1 .  F0 B0 .  .  F1 B1 .  U
        """,
    ),
    "sequential of 3 with recomputation": (
        {
            "device_mapping": (0, 1, 2),
            "count": 1,
            "schedule": _SEQUENTIAL,
            "recomputation": _AUTO,
        },
        """
        IPU 0 F0  .   .   .   .   RB0 U
        IPU 1 .   F0  .   .   RB0 .   U
        IPU 2 .   .   F0  B0  .   .   U
        """,
    ),
    "inference of 3": (
        {"device_mapping": (0, 1, 2), "count": 3, "training": False},
        """
        IPU 0 F0 F1 F2 .  .
        IPU 1 .  F0 F1 F2 .
        IPU 2 .  .  F0 F1 F2
        """,
    ),
    # Stages of one IPU take turns, in a slot and in the update.
    "inference with a shared IPU": (
        {"device_mapping": (0, 1, 0), "count": 3, "training": False},
        """
        IPU 0 0:F0 0:F1 0:F2 2:F0 2:F1 2:F2
        IPU 1 .    1:F0 1:F1 .    1:F2 .
        """,
    ),
    "sequential with a shared IPU": (
        {"device_mapping": (0, 1, 0), "count": 1, "schedule": _SEQUENTIAL},
        """
        IPU 0 0:F0 .    2:F0 2:B0 .    0:B0 0:U  2:U
        IPU 1 .    1:F0 .    .    1:B0 .    1:U  .
        """,
    ),
    # The members of a parallel stage work at the same time.
    "a parallel stage": (
        {"device_mapping": (0, (1, 3), 2), "count": 1, "schedule": _SEQUENTIAL},
        """
        IPU 0 F0 .  .  .  .  B0 U
        IPU 1 .  F0 .  .  B0 .  U
        IPU 2 .  .  F0 B0 .  .  U
        IPU 3 .  F0 .  .  B0 .  U
        """,
    ),
}


@pytest.mark.parametrize("name", _TABLES)
def test_small_schedules_are_the_expected_tables(name):
    options, table = _TABLES[name]
    lines = build(PipelineDescription(**options)).text().splitlines()
    expected = [line.strip() for line in table.strip().splitlines()]
    assert lines[2:-1] == expected


def test_the_table_has_a_title_and_a_legend():
    lines = str(build(PipelineDescription((0, 1), 4, repeat_count=3))).splitlines()
    # 2 * (4 + 1) steps and the update; 4 of the 22 cells are idle.
    assert lines[0] == (
        "Grouped training: 2 stages, 2 IPUs, count 4, 3 executions, 11 steps, bubble 18.2 %, "
        "stash depth per stage 2 0"
    )
    assert lines[1] == "step  0  1  2  3  4  5  6  7  8  9  10"
    assert lines[-1] == "F forward, B backward, U weight update, . idle; number: mini-batch"


def test_the_title_names_serialization_and_recomputation():
    description = PipelineDescription(
        (0, 0),
        1,
        schedule=_SEQUENTIAL,
        batch_serialization_iterations=3,
        recomputation=_AUTO,
    )
    assert str(build(description)).splitlines()[0] == (
        "Sequential training: 2 stages, 1 IPU, count 1 x 3 serialized, 14 steps, bubble 0.0 %, "
        "stash depth per stage 2 2, RecomputeAndBackpropagateInterleaved"
    )


def test_middle_of_a_long_schedule_is_left_out():
    schedule = build(PipelineDescription((0, 1), 1000, training=False))
    assert schedule.text(max_steps=5).splitlines()[1:] == [
        "step  0    1    2    ..   999  1000",
        "IPU 0 F0   F1   F2   ..   F999 .",
        "IPU 1 .    F0   F1   ..   F998 F999",
        "steps 3 to 998 of 1001 are not shown",
        "F forward, . idle; number: mini-batch",
    ]


def test_one_step_more_than_shown_still_whole_table():
    schedule = build(PipelineDescription((0, 1), 4))
    assert "not shown" not in schedule.text(max_steps=11)
    assert "steps 5 to 5 of 11 are not shown" in schedule.text(max_steps=10)


def test_both_ends_have_to_be_shown():
    with pytest.raises(ValueError, match="max_steps must be at least 2"):
        build(PipelineDescription((0, 1), 4)).text(max_steps=1)


# --- The geometry and the text of pictures ---

_NAMESPACE = "{http://www.w3.org/2000/svg}"


_PIPELINES = {
    "grouped": PipelineDescription((0, 1, 2, 3), 8),
    "shared": PipelineDescription(
        (0, 1, 2, 3, 0), 1020, recomputation=RecomputationMode.Auto, repeat_count=2
    ),
    "fused": PipelineDescription(
        (0, (11, 2), 1),
        4,
        schedule=PipelineSchedule.Sequential,
        recomputation=RecomputationMode.Auto,
    ),
    "inference": PipelineDescription((0, 1), 2, training=False),
}


def _elements(schedule, name, max_steps=24):
    root = ElementTree.fromstring(schedule.svg(max_steps))
    return root, list(root.iter(_NAMESPACE + name))


def _box(element):
    return tuple(float(element.get(key)) for key in ("x", "y", "width", "height"))


@pytest.mark.parametrize("name", _PIPELINES)
def test_cells_have_their_place(name):
    schedule = build(_PIPELINES[name])
    root, rectangles = _elements(schedule, "rect")
    width, height = float(root.get("width")), float(root.get("height"))
    cells = [_box(rect) for rect in rectangles if rect.get("class") == "idle"]
    steps = min(schedule.steps, 24)
    assert len(cells) == len(set(cells)) == steps * len(schedule.description.ipus)
    assert len({x for x, *_ in cells}) == steps
    for x, y, wide, high in cells:
        assert 0 <= x <= x + wide <= width and 0 <= y <= y + high <= height
    for places, size in (
        ({x for x, *_ in cells}, cells[0][2]),
        ({c[1] for c in cells}, cells[0][3]),
    ):
        ordered = sorted(places)
        assert all(two - one >= size for one, two in zip(ordered, ordered[1:]))


@pytest.mark.parametrize("name", _PIPELINES)
def test_every_shown_entry_has_labeled_colored_cell(name):
    schedule = build(_PIPELINES[name])
    root, rectangles = _elements(schedule, "rect", 10)
    lines = schedule.text(10).splitlines()
    rows = [re.sub(r"^IPU +\d+ +", "", line).split() for line in lines if line.startswith("IPU")]
    expected = Counter(cell for row in rows for cell in row if cell not in (".", ".."))
    texts = [node for node in root.iter(_NAMESPACE + "text") if node.get("class") == "cell"]
    assert Counter(node.text for node in texts) == expected
    idle = {_box(rect) for rect in rectangles if rect.get("class") == "idle"}
    coloured = [_box(rect) for rect in rectangles if rect.get("fill")]
    boxes = [box for box in coloured if box in idle]
    assert len(boxes) == len(set(boxes)) == len(texts)
    for (x, y, width, height), node in zip(boxes, texts):
        assert float(node.get("x")) == x + width / 2
        assert y < float(node.get("y")) < y + height
        # 7.5 is more than the width of a character of this size.
        assert 7.5 * len(node.text) <= width


@pytest.mark.parametrize("name", _PIPELINES)
def test_text_fits_into_the_picture(name):
    root, texts = _elements(build(_PIPELINES[name]), "text")
    for node in texts:
        middle = node.get("class") in ("cell", "ink step")
        length = 7.5 * len(node.text) * (0.5 if middle else 1)
        assert float(node.get("x")) + length <= float(root.get("width"))


def test_colors_differ_by_work_and_are_explained():
    root, rectangles = _elements(build(_PIPELINES["shared"]), "rect")
    legend = [rect.get("fill") for rect in rectangles if rect.get("width") == "14"]
    assert len(legend) == len(set(legend)) == 4
    words = [node.text for node in root.iter(_NAMESPACE + "text")]
    assert [word for word in words if re.match("[FRBU] ", word)] == [
        "F forward",
        "R recompute",
        "B backward",
        "U weight update",
    ]
    assert "number: mini-batch, stage before the colon" in words


def test_the_picture_describes_itself():
    schedule = build(_PIPELINES["shared"])
    root, _ = _elements(schedule, "rect")
    assert root.get("role") == "img"
    assert root.find(_NAMESPACE + "title").text == schedule.text().splitlines()[0]
    description = root.find(_NAMESPACE + "desc").text
    assert f"Steps 12 to {schedule.steps - 13} are left out." in description
    assert "a row for each IPU and a column for each time step" in description


def test_the_picture_needs_nothing_else():
    picture = build(_PIPELINES["fused"]).svg()
    assert not re.search(r"href|url\(|@import|<script|<image", picture)
    assert "prefers-color-scheme: dark" in picture
    assert picture == build(_PIPELINES["fused"]).svg()


def test_it_can_be_written_to_a_file(tmp_path):
    schedule = build(_PIPELINES["grouped"])
    schedule.write_svg(tmp_path / "schedule.svg", 10)
    assert (tmp_path / "schedule.svg").read_text(encoding="utf-8") == schedule.svg(10)
