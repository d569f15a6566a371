"""Tests that the pictures of schedules are those that the code draws."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def _module():
    spec = importlib.util.spec_from_file_location("make_schedules", DOCS / "make_schedules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_are_up_to_date():
    pictures = _module().render()
    assert sorted(path.name for path in pictures) == [
        "schedule_grouped.svg",
        "schedule_interleaved.svg",
        "schedule_sequential.svg",
    ]
    for path, picture in pictures.items():
        assert path.read_text(encoding="utf-8") == picture, (
            f"docs/pictures/{path.name} is out of date: run python docs/make_schedules.py"
        )
