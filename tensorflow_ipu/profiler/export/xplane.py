"""Trace of a report for TensorBoard's profile plugin, with a plane for each IPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tensorflow_ipu.planner.time.items import IDLE
from tensorflow_ipu.profiler.export.trace import chip, host_events
from tensorflow_ipu.profiler.export.trace.slices import MOST_SLICES, Slice, Track

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.host.activity import HostActivity
    from tensorflow_ipu.profiler.report import Report

_PICOSECONDS = 1e12
# TensorFlow shows the planes of devices whose names begin so.
_PLANE = "/device:CUSTOM:IPU:"
_HOST = "/host:CPU"
_STATISTICS = ("kind", "label", "source", "layer", "scope", "op", "tiles")


def space(
    report: Report, most_slices: int = MOST_SLICES, host: HostActivity | None = None
) -> xplane_pb2.XSpace:
    """Returns the timeline of one launch.

    Args:
        report: the report.
        most_slices: limit of slices of a track, at least 4.
        host: activity of the host, if it was recorded; a plane with a clock of its own.
    """
    result = xplane_pb2.XSpace()
    for ipu in chip.tracks(report.plan, most_slices):
        plane = result.planes.add(id=ipu.ipu, name=f"{_PLANE}{ipu.ipu}")
        _fill(plane, (ipu.layers, ipu.slowest, ipu.mean), _PICOSECONDS / report.plan.timeline.clock)
    if host is not None:
        _fill_host(result.planes.add(id=report.workload.ipus, name=_HOST), host)
    return result


def _fill_host(plane: xplane_pb2.XPlane, host: HostActivity) -> None:
    """Adds the host's activity to its plane, a line for each thread."""
    names: dict[str, int] = {}
    recorded = host_events.threads(host)
    for place, (thread, spans) in enumerate(recorded.items()):
        line = plane.lines.add(id=place, name=f"{thread} (measured)")
        for span in spans:
            begin = round(span.begin * _PICOSECONDS)
            end = begin if span.end is None else round(span.end * _PICOSECONDS)
            name = f"{span.kind}: {span.name}"
            line.events.add(
                metadata_id=names.setdefault(name, len(names) + 1),
                offset_ps=begin,
                duration_ps=max(end - begin, 0),
            )
    for place, traced in enumerate(host.threads or (), len(recorded)):
        line = plane.lines.add(id=place, name=f"thread {traced.name} (measured)")
        for one in traced.spans:
            begin, end = round(one.begin * _PICOSECONDS), round(one.end * _PICOSECONDS)
            line.events.add(
                metadata_id=names.setdefault(one.name, len(names) + 1),
                offset_ps=begin,
                duration_ps=max(end - begin, 0),
            )
    _name_events(plane, names)


def _name_events(plane: xplane_pb2.XPlane, names: Mapping[str, int]) -> None:
    """Adds the names that events refer to by number."""
    for name, number in names.items():
        plane.event_metadata[number].id = number
        plane.event_metadata[number].name = name


def _fill(plane: xplane_pb2.XPlane, tracks: tuple[Track, ...], scale: float) -> None:
    """Adds the tracks of an IPU to its plane, a line for each track."""
    for number, name in enumerate(_STATISTICS, 1):
        plane.stat_metadata[number].id = number
        plane.stat_metadata[number].name = name
    names: dict[str, int] = {}
    for place, track in enumerate(tracks):
        line = plane.lines.add(id=place, name=f"{track.name} (modelled)")
        for one in track.slices:
            if one.kind == IDLE:
                continue
            begin, end = round(one.start * scale), round(one.end * scale)
            event = line.events.add(
                metadata_id=names.setdefault(one.name, len(names) + 1),
                offset_ps=begin,
                duration_ps=end - begin,
            )
            for number, value in _statistics(one):
                event.stats.add(metadata_id=number, str_value=value)
    _name_events(plane, names)


def _statistics(one: Slice) -> Iterator[tuple[int, str]]:
    """Yields number and text of each statistic of a slice."""
    known = {"kind": one.kind, **one.details}
    for number, name in enumerate(_STATISTICS, 1):
        value = known.get(name)
        if value:
            yield number, str(value)
