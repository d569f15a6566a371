"""Exports a report for TensorBoard's profile plugin: a trace with a plane for each IPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tensorflow_ipu.planner.op_groups import group
from tensorflow_ipu.planner.plan import Segment

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

_PICOSECONDS = 1e12
# TensorFlow shows the planes of devices whose names begin so.
_PLANE = "/device:CUSTOM:IPU:"
_STATISTICS = ("kind", "label", "source", "layer")


def space(report: Report) -> xplane_pb2.XSpace:
    """Returns the timeline of one launch.

    Args:
        report: the report.
    """
    result = xplane_pb2.XSpace()
    for ipu in range(report.workload.ipus):
        segments = [s for s in report.plan.timeline.segments if s.ipu == ipu and s.kind != "idle"]
        _fill(result.planes.add(id=ipu, name=f"{_PLANE}{ipu}"), segments, report)
    return result


def _fill(plane: xplane_pb2.XPlane, segments: list[Segment], report: Report) -> None:
    """Adds what an IPU does to its plane."""
    for number, name in enumerate(_STATISTICS, 1):
        plane.stat_metadata[number].id = number
        plane.stat_metadata[number].name = name
    line = plane.lines.add(id=0, name="work")
    scale = _PICOSECONDS / report.plan.timeline.clock
    names: dict[str, int] = {}
    for segment in segments:
        name = segment.name or segment.kind
        event = line.events.add(
            metadata_id=names.setdefault(name, len(names) + 1),
            offset_ps=round(segment.start * scale),
            duration_ps=round(segment.cycles * scale),
        )
        op = None if segment.op is None else report.workload.ops[segment.op]
        origin = ("", "") if op is None else (op.source, group(op))
        for number, value in enumerate((segment.kind, segment.label.value, *origin), 1):
            if value:
                event.stats.add(metadata_id=number, str_value=value)
    for name, number in names.items():
        plane.event_metadata[number].id = number
        plane.event_metadata[number].name = name
