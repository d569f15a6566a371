"""Nested name scopes of a timeline: a slice for each layer, around its parts' slices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tensorflow_ipu.planner.op_groups import group
from tensorflow_ipu.planner.plan import Plan, Segment
from tensorflow_ipu.planner.time.items import IDLE
from tensorflow_ipu.profiler.export.trace.slices import Slice

LAYER = "layer"


def nested(plan: Plan, segments: Sequence[Segment]) -> list[Slice]:
    """Returns the slices of name scopes of an IPU, by their start, outer ones first.

    A scope goes on as long as the IPU does nothing outside of it. In a pipeline it is a stage in
    one of its phases, with the mini-batch inside.

    Args:
        plan: of the program.
        segments: the work of the IPU, in order of the start.
    """
    found: list[_Scope] = []
    inside: list[_Scope] = []  # open scopes, from the outermost
    for segment in segments:
        path = _path(plan, segment)
        common = 0
        while common < min(len(path), len(inside)) and path[common] == inside[common].name:
            common += 1
        del inside[common:]
        for name in path[common:]:
            inside.append(_Scope(name, "/".join((*(s.name for s in inside), name)), segment.start))
            found.append(inside[-1])
        for scope in inside:
            scope.end = segment.start + segment.cycles
            scope.cycles += segment.cycles
    return [
        Slice(s.name, LAYER, s.start, s.end - s.start, {"scope": s.path, "cycles": s.cycles})
        for s in found
    ]


@dataclasses.dataclass
class _Scope:
    """A scope in the making.

    Attributes:
        name: Last part of its name.
        path: All of it.
        start: Its start in cycles.
        end: End of its segments so far.
        cycles: Cycles of its segments so far.
    """

    name: str
    path: str
    start: float
    end: float = 0.0
    cycles: float = 0.0


def _path(plan: Plan, segment: Segment) -> list[str]:
    """Returns the scopes of a segment from the outermost; none while the IPU is idle."""
    if segment.kind == IDLE:
        return []
    if segment.op is None:
        if segment.stage is None:
            return []
        batch = "" if segment.mini_batch is None else f"mini-batch {segment.mini_batch}"
        return [part for part in (f"{segment.name} {segment.phase or 'forward'}", batch) if part]
    op = plan.workload.ops[segment.op]
    path = op.name.split("/")[:-1]
    return path or [name for name in (group(op),) if name]
