"""`plan_as_pipeline`: says that a loop is a pipeline, whose stages overlap in plans."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_ipu.frontends.popxl.core.op import Op


def plan_as_pipeline(loop: Op, stages: Mapping[Op, int]) -> None:
    """Says that the stages of a loop work on different iterations at the same time, in plans.

    What is computed stays the same: one iteration after the other. A plan has one pipeline: that of
    which this was said first.

    Args:
        loop: the loop.
        stages: the stage of each op of the graph that it repeats; an iteration is in one stage
            after the other.
    """
    if loop.graph.ir.next_number("pipeline"):
        return
    numbers = {stage: number for number, stage in enumerate(sorted(set(stages.values())))}
    ipus: dict[int, set[int]] = {number: set() for number in numbers.values()}
    for op, stage in stages.items():
        op.planned["stage"] = numbers[stage]
        ipus[numbers[stage]].add(op.source_ipu)
    loop.planned["pipeline"] = [sorted(of_stage) for of_stage in ipus.values()]


def plan_stash(op: Op, stages: int) -> None:
    """Says that an op of a pipeline takes a tensor of an earlier stage, of which several are kept.

    Args:
        op: the op.
        stages: how many stages earlier.
    """
    op.planned["stash"] = stages + 1
