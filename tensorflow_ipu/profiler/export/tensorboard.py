"""TensorBoard log directory of a report: texts, scalars, pictures and a trace."""

from __future__ import annotations

import errno
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from tensorflow_ipu.planner.plan import IpuMemory
from tensorflow_ipu.profiler.export import text_report, xplane
from tensorflow_ipu.profiler.export.chrome_trace import thinned
from tensorflow_ipu.util import private_files
from tensorflow_ipu.versions import tensorboard as installed

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.host.activity import HostActivity
    from tensorflow_ipu.profiler.report import Report

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
    report: Report,
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
    installed.require()
    run = private_files.make_folder(Path(directory) / _UNSAFE.sub("_", report.name))
    try:
        _summaries(report, run, step)
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message, os.fspath(run)) from error
    _trace(report, run, host)
    private_files.restrict(run)  # the writer of summaries is TensorFlow's
    return run


def _summaries(report: Report, run: Path, step: int) -> None:
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


def _text(report: Report, step: int) -> None:
    """Writes the text summary."""
    lines = text_report.text(report).splitlines()
    tf.summary.text("report", "\n".join(f"    {line}" for line in lines), step=step)


def _scalars(report: Report, step: int) -> None:
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


def _trace(report: Report, run: Path, host: HostActivity | None) -> None:
    """Writes the file that the profile plugin reads."""
    folder = private_files.make_folder(run / "plugins" / "profile" / "launch")
    data = xplane.space(report, host=host).SerializeToString()
    private_files.write_bytes(folder / f"{socket.gethostname()}.xplane.pb", data)
