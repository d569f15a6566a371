"""The geometry and the text of pictures."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

import pytest

from tensorflow_ipu.schedule import (
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
    build,
)

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
def test_every_entry_that_is_shown_has_a_colored_cell_with_its_label(name):
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


def test_colors_differ_by_kind_of_work_and_are_explained():
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
