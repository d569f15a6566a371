"""Planning: from a Workload and a target to memory and time."""

from __future__ import annotations

from tensorflow_ipu.planner.memory import replica
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import timeline
from tensorflow_ipu.planner.workload import Workload


def plan(workload: Workload, settings: Settings) -> Plan:
    """Plans memory and time of a Workload.

    Args:
        workload: the program.
        settings: what it is planned for.

    Returns:
        The plan. Nothing is raised when it does not fit: see `capacity`.

    Raises:
        ValueError: the settings do not suit the program, such as stages it does not have.
    """
    return Plan(
        workload, settings, replica.plan(workload, settings), timeline.plan(workload, settings)
    )
