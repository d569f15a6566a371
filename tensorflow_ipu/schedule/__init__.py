"""Pipeline schedules: tables of which stage of which mini-batch runs when on which IPU.

`build(description)` makes a `Schedule`; `timed(schedule, costs)` says how long it takes;
`check(description)` refuses what a schedule does not support; `fewest(description)` is the least
number of mini-batches that it can run.
"""

from tensorflow_ipu.schedule.builder import build
from tensorflow_ipu.schedule.checks import check, fewest
from tensorflow_ipu.schedule.description import PipelineDescription
from tensorflow_ipu.schedule.modes import Phase, PipelineSchedule, RecomputationMode
from tensorflow_ipu.schedule.table import Entry, Schedule
from tensorflow_ipu.schedule.timing import Costs, Timing, timed, unit_costs

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
