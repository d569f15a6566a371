"""TensorBoard log directory of a report: texts, scalars, pictures and a trace."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tensorflow_ipu.import_hook.versions import packages as installed
from tensorflow_ipu.planner.plan import IpuMemory
from tensorflow_ipu.planner.time.items import IDLE
from tensorflow_ipu.profiler.export import text_report, trace_tracks
from tensorflow_ipu.profiler.export.chrome_trace import thinned
from tensorflow_ipu.profiler.export.trace_tracks import MOST_SLICES, Slice, Track
from tensorflow_ipu.profiler.report_data import ReportData
from tensorflow_ipu.util import private_files

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.host_activity import HostActivity


# --- Trace for the profile plugin ---

_PICOSECONDS = 1e12

# TensorFlow shows the planes of devices whose names begin so.
_PLANE = "/device:CUSTOM:IPU:"
_HOST = "/host:CPU"
_STATISTICS = ("kind", "label", "source", "layer", "scope", "op", "tiles")


def space(
    report: ReportData, most_slices: int = MOST_SLICES, host: HostActivity | None = None
) -> xplane_pb2.XSpace:
    """Returns the timeline of one launch.

    Args:
        report: the report.
        most_slices: limit of slices of a track, at least 4.
        host: activity of the host, if it was recorded; a plane with a clock of its own.
    """
    result = xplane_pb2.XSpace()
    for ipu in trace_tracks.tracks(report.plan, most_slices):
        plane = result.planes.add(id=ipu.ipu, name=f"{_PLANE}{ipu.ipu}")
        _fill(plane, (ipu.layers, ipu.slowest, ipu.mean), _PICOSECONDS / report.plan.timeline.clock)
    if host is not None:
        _fill_host(result.planes.add(id=report.workload.ipus, name=_HOST), host)
    return result


def _fill_host(plane: xplane_pb2.XPlane, host: HostActivity) -> None:
    """Adds the host's activity to its plane, a line for each thread."""
    names: dict[str, int] = {}
    recorded = trace_tracks.threads(host)
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


# --- Log directory ---

_POINTS = 150
_HEIGHT, _WIDTH = 200, 736
_UNSAFE = re.compile(r"[^\w.-]")
_PAPER, _LIMIT = (255, 255, 255), (180, 35, 24)

# The colors of Okabe and Ito, which people with any kind of color vision can tell apart; then grey.
_COLORS = (
    (0, 114, 178),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (213, 94, 0),
    (184, 168, 0),
    (153, 153, 153),
)


def write(
    report: ReportData,
    directory: str | os.PathLike[str],
    step: int = 0,
    host: HostActivity | None = None,
) -> Path:
    """Writes a report into a log directory, in a run with the name of the program.

    Args:
        report: the report.
        directory: the log directory, for `tensorboard --logdir`.
        step: step of the scalars, such as the cycles of a launch.
        host: activity of the host, for the trace.

    Returns:
        The directory of the run.

    Raises:
        OSError: it cannot be written.
        ImportError: the package tensorboard is not installed.
    """
    installed.require_tensorboard()
    run = private_files.make_folder(Path(directory) / _UNSAFE.sub("_", report.name))
    try:
        _summaries(report, run, step)
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message, os.fspath(run)) from error
    _trace(report, run, host)
    private_files.restrict(run)  # the writer of summaries is TensorFlow's
    return run


def _summaries(report: ReportData, run: Path, step: int) -> None:
    """Writes texts, scalars and pictures."""
    # Summaries are written at once in eager mode only, and programs may be in graph mode.
    with context.eager_mode():
        writer = tf.summary.create_file_writer(str(run))
        with writer.as_default():
            _text(report, step)
            _scalars(report, step)
            for memory in report.plan.memory:
                _memory(memory, step)
        writer.close()


def _text(report: ReportData, step: int) -> None:
    """Writes the text summary."""
    lines = text_report.text(report).splitlines()
    tf.summary.text("report", "\n".join(f"    {line}" for line in lines), step=step)


def _scalars(report: ReportData, step: int) -> None:
    """Writes the single numbers."""
    timeline, worst = report.plan.timeline, report.plan.fullest
    tf.summary.scalar("launch/cycles", timeline.cycles, step=step)
    tf.summary.scalar("launch/seconds", timeline.seconds, step=step)
    for kind, cycles in timeline.by_kind.items():
        tf.summary.scalar(f"cycles/{kind}", cycles, step=step)
    tf.summary.scalar("memory/fullest_tile_bytes", worst.worst_bytes, step=step)
    bubble = report.insights["bubble_share"]
    if bubble is not None:
        tf.summary.scalar("launch/bubble_share", bubble, step=step)


def _memory(memory: IpuMemory, step: int) -> None:
    """Writes curves over tiles and over the program, and a picture of the tiles."""
    name = f"ipu_{memory.ipu}"
    tf.summary.scalar(f"memory/{name}_bytes", memory.total, step=step)
    for tile in thinned(memory.peak, _POINTS).tolist():
        tf.summary.scalar(f"bytes_by_tile/{name}", memory.peak[tile], step=tile)
    for point in thinned(memory.live_bytes, _POINTS).tolist():
        live = memory.always_live + int(memory.live_bytes[point])
        tf.summary.scalar(f"live_bytes_by_op/{name}", live, step=point)
    names = ", ".join(category.name for category in memory.categories)
    description = (
        f"Bytes on each of {len(memory.peak)} tiles, from below: {names}. The line is the capacity "
        f"of a tile, {memory.capacity} B; the picture is as high as the fullest tile, or this."
    )
    tf.summary.image(
        f"memory_per_tile/{name}", picture(memory)[None], step=step, description=description
    )


def picture(memory: IpuMemory) -> np.ndarray:
    """Returns the tiles of an IPU as a picture, uint8 of height, width and color.

    Args:
        memory: of the IPU.
    """
    columns = np.arange(_WIDTH) * len(memory.peak) // _WIDTH
    top = max(memory.capacity, memory.worst_bytes, 1)
    heights = _HEIGHT - np.arange(_HEIGHT)[:, None] - 0.5  # of each row of the picture
    pixels = np.full((_HEIGHT, _WIDTH, 3), _PAPER, np.uint8)
    below = np.zeros(_WIDTH)
    for index, category in enumerate(memory.categories):
        above = below + category.tiles[columns] * (_HEIGHT / top)
        inside = (heights >= below) & (heights < above)
        pixels[inside] = _COLORS[min(index, len(_COLORS) - 1)]
        below = above
    pixels[min(_HEIGHT - 1, int(_HEIGHT * (1 - memory.capacity / top)))] = _LIMIT
    return pixels


def _trace(report: ReportData, run: Path, host: HostActivity | None) -> None:
    """Writes the file that the profile plugin reads."""
    folder = private_files.make_folder(run / "plugins" / "profile" / "launch")
    data = space(report, host=host).SerializeToString()
    private_files.write_bytes(folder / f"{socket.gethostname()}.xplane.pb", data)
