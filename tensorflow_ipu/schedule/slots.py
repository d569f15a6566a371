"""The formula of the slot in which a stage handles a mini-batch, for all schedules.

A mini-batch walks down the stages, `hop` slots from a stage to the next, turns round at the last
stage and walks back at the same speed. A new one starts every `period` slots. With d the distance
of stage s to the last stage,

    turn(m)        = period * m + hop * (stages - 1)
    forward(s, m)  = turn(m) - hop * d
    backward(s, m) = turn(m) + 1 + hop * d

A schedule is a choice of the two numbers:

    schedule       period      hop   which makes
    Grouped        2           2     forward passes in even slots, backward passes in odd ones
    Interleaved    2           1     neighbours go forward and backward in turn
    Sequential     2 * stages  1     the next mini-batch starts when the last one is done
    (inference)    1, stages   1     every slot a forward pass; Sequential as above

A mini-batch is in flight in stage s from its forward to its backward slot, that is for
2 * hop * d + 2 slots, so ceil((2 * hop * d + 2) / period) mini-batches are: 2d + 1 in Grouped,
d + 1 in Interleaved, 1 in Sequential. One of them is being worked on; the stash holds the rest.

A slot is a stretch of time after which all IPUs of the pipeline wait for each other. Stages of one
IPU in the same slot run one after the other (`builder.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorflow_ipu.schedule.description import PipelineDescription
from tensorflow_ipu.schedule.modes import PipelineSchedule


class Pace(NamedTuple):
    """Period and hop of mini-batches, in slots.

    Args:
        period: slots from the start of a mini-batch to the start of the next.
        hop: slots that a mini-batch needs from a stage to the next.
    """

    period: int
    hop: int


def pace_of(description: PipelineDescription) -> Pace:
    """Returns the pace of a pipeline's schedule."""
    directions = 2 if description.training else 1
    if description.schedule is PipelineSchedule.Sequential:
        return Pace(directions * description.stages, 1)
    grouped = description.schedule is PipelineSchedule.Grouped
    return Pace(directions, directions if grouped else 1)


def forward_slots(description: PipelineDescription) -> np.ndarray:
    """Returns the slot of each forward pass, int64, by stage and mini-batch."""
    distance = _distances(description)[:, np.newaxis]
    return _serialized(description, _turns(description) - pace_of(description).hop * distance)


def backward_slots(description: PipelineDescription) -> np.ndarray:
    """Returns the slot of each backward pass, int64, by stage and mini-batch.

    Args:
        description: a pipeline that is trained.
    """
    distance = _distances(description)[:, np.newaxis]
    return _serialized(description, _turns(description) + 1 + pace_of(description).hop * distance)


def in_flight(description: PipelineDescription) -> tuple[int, ...]:
    """Returns the most mini-batches in flight in each stage, by the closed form.

    Exact. A mini-batch is in flight in a stage from the start of its forward pass there to the end
    of its backward pass. In inference it is as long as the stage works on it.
    """
    pace = pace_of(description)
    serialized = description.batch_serialization_iterations
    if not description.training:
        return (min(description.count, 1),) * description.stages
    lifetimes = 2 * pace.hop * _distances(description) + 2
    executions = np.minimum(-(-lifetimes // pace.period), description.count)
    return tuple((serialized * executions).tolist())


def stash_depths(description: PipelineDescription) -> tuple[int, ...]:
    """Returns the most mini-batches in the stash of each stage, by the closed form.

    Exact: the mini-batches in flight without the one being worked on. 2d in Grouped, d in
    Interleaved and 0 in Sequential, with d the distance to the last stage; batch serialization by b
    makes 0 into b - 1.
    """
    return tuple(max(number - 1, 0) for number in in_flight(description))


def _distances(description: PipelineDescription) -> np.ndarray:
    """Returns the distance of each stage to the last one."""
    return np.arange(description.stages - 1, -1, -1)


def _turns(description: PipelineDescription) -> np.ndarray:
    """Returns the slot of each mini-batch in the last stage."""
    period, hop = pace_of(description)
    return period * np.arange(description.count) + hop * (description.stages - 1)


def _serialized(description: PipelineDescription, slots: np.ndarray) -> np.ndarray:
    """Makes each slot into one for each mini-batch that a stage handles when it runs."""
    iterations = description.batch_serialization_iterations
    each = slots[:, :, np.newaxis] * iterations + np.arange(iterations)
    return each.reshape(description.stages, -1)
