"""Enumerations of a pipeline: schedules, recomputation modes and phases."""

from __future__ import annotations

import enum


class PipelineSchedule(enum.Enum):
    """How the stages of a pipeline are interleaved on its IPUs.

    Attributes:
        Grouped: In each time slot all IPUs go forward, or all go backward. Activations wait long
            for their backward pass, but IPUs wait little for each other.
        Interleaved: In a time slot some IPUs go forward while others go backward. Activations wait
            half as long, but a forward pass takes the time of a backward pass beside it.
        Sequential: One mini-batch at a time, as in a model that is only sharded.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(enum.Enum):
    """The ways to recompute the activations that a backward pass needs.

    Attributes:
        Auto: The usual mode of the schedule.
        RecomputeThenBackpropagate: All of a stage's activations, then its backward pass.
        RecomputeAndBackpropagateInterleaved: Each activation just before it is needed.
    """

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class Phase(enum.IntEnum):
    """The kind of work of an IPU in one cell of a schedule."""

    FORWARD = 0
    RECOMPUTE = 1
    BACKWARD = 2
    UPDATE = 3
