"""Pipeline schedules: tables of the stage and mini-batch of each IPU at each step.

`build(description)` makes a `Schedule`; `timed(schedule, costs)` returns its cycles;
`check(description)` raises for unsupported pipelines; `fewest(description)` is the least number of
mini-batches that it can run.
"""

from tensorflow_ipu.planner.schedule.builder import build
from tensorflow_ipu.planner.schedule.description import (
    Phase,
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
    check,
    fewest,
)
from tensorflow_ipu.planner.schedule.table import Entry, Schedule
from tensorflow_ipu.planner.schedule.timing import Costs, Timing, timed, unit_costs

__all__ = [
    "Costs",
    "Entry",
    "Phase",
    "PipelineDescription",
    "PipelineSchedule",
    "RecomputationMode",
    "Schedule",
    "Timing",
    "build",
    "check",
    "fewest",
    "timed",
    "unit_costs",
]
