"""Draws the pictures of pipeline schedules in docs/pictures: `python docs/make_schedules.py`."""

from __future__ import annotations

from pathlib import Path

from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule, build

FOLDER = Path(__file__).with_name("pictures")

# The same work in all of them: the fewest mini-batches that every schedule runs with 4 stages.
_STAGES = 4
_COUNT = 8
_STEPS = 23


def render() -> dict[Path, str]:
    """Returns the pictures by path."""
    pictures = {}
    for mode in PipelineSchedule:
        description = PipelineDescription(tuple(range(_STAGES)), _COUNT, schedule=mode)
        path = FOLDER / f"schedule_{mode.name.lower()}.svg"
        pictures[path] = build(description).svg(_STEPS)
    return pictures


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, picture in render().items():
        path.write_text(picture, encoding="utf-8")
