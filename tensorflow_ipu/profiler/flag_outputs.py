"""Outputs of TF_POPLAR_FLAGS: liveness, tensor maps, schedules, cycle counts."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorflow_ipu.runtime import event_payloads
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.configs.flags import Flags
    from tensorflow_ipu.planner.plan import Plan

INTERVAL_COLUMNS = (
    "ipu",
    "step",
    "op",
    "type",
    "always_live_bytes",
    "not_always_live_bytes",
    "worst_tile_bytes",
)
_XLA_FLAGS = "XLA_FLAGS"
_DUMP_FLAG = "--xla_dump_to="
# Names of programs hold slashes of name scopes.
_UNSAFE = re.compile(r"[^\w.-]")


def cycle_line(executable: Executable, parsed: Flags) -> str:
    """Returns the line that is logged after each execution.

    Args:
        executable: the program.
        parsed: flags, of which `log_cycle_count` is the tile.
    """
    plan, tile = executable.plan, parsed.log_cycle_count
    tiles = plan.settings.chip.tiles * plan.workload.ipus * plan.settings.local_replicas
    if tile >= tiles:
        warn_once(
            "--log_cycle_count=%d: %s runs on the tiles 0 to %d. Its cycles are those of all of "
            "them, as each launch begins and ends with a synchronisation.",
            tile,
            executable.name,
            tiles - 1,
        )
    timeline = plan.timeline
    return (
        f"{executable.name}: {round(timeline.cycles)} cycles on tile {tile} "
        f"({timeline.label.value}, {timeline.seconds:.6g} s)"
    )


def write_intervals(executable: Executable, folder: str) -> None:
    """Writes the live bytes at each step of a program as `<program>.csv`.

    Args:
        executable: the program.
        folder: the target folder.

    Raises:
        OSError: the file cannot be written.
    """
    with private_files.replacing(_file(folder, executable.name, ".csv")) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(INTERVAL_COLUMNS)
        writer.writerows(_intervals(executable.plan))
        text.detach()  # writes the rest of the buffer


def _intervals(plan: Plan) -> Iterator[tuple[Any, ...]]:
    """Yields the rows: all steps of the first IPU, then of the next."""
    for memory in plan.memory:
        always = [category.tiles for category in memory.categories if category.always_live]
        fullest = int(np.sum(always, axis=0).max()) if always else 0
        for step, index in enumerate(memory.live_ops.tolist()):
            op = plan.workload.ops[index]
            yield (
                memory.ipu,
                step,
                op.name,
                op.type,
                memory.always_live,
                int(memory.live_bytes[step]),
                fullest + int(memory.live_worst[step]),
            )


def write_tensor_map(executable: Executable, folder: str) -> None:
    """Writes the tile mapping of the results of a program's ops as `<program>.json`.

    Args:
        executable: the program.
        folder: where to.

    Raises:
        OSError: the file cannot be written.
    """
    text = event_payloads.tensor_map(executable, max_bytes=2**62)
    private_files.write_text(_file(folder, executable.name, ".json"), text)


def write_schedule(executable: Executable, _: bool) -> None:
    """Writes the order of a program's ops as `<program>.schedule.dot`.

    It goes where `--xla_dump_to` in XLA_FLAGS says, else into the current folder.

    Args:
        executable: the program.

    Raises:
        OSError: the file cannot be written.
    """
    words = shlex.split(os.environ.get(_XLA_FLAGS, ""))
    given = [word[len(_DUMP_FLAG) :] for word in words if word.startswith(_DUMP_FLAG)]
    path = _file(given[-1] if given else ".", executable.name, ".schedule.dot")
    private_files.write_text(path, schedule_dot(executable.plan))


def schedule_dot(plan: Plan) -> str:
    """Returns the ops of each IPU in the order in which they run, as a graph for Graphviz.

    Args:
        plan: memory and time of a program.
    """
    lines = ["digraph schedule {", "  node [shape=box];"]
    for memory in plan.memory:
        lines += [f"  subgraph cluster_{memory.ipu} {{", f'    label="IPU {memory.ipu}";']
        steps = memory.live_ops.tolist()
        for step, index in enumerate(steps):
            op = plan.workload.ops[index]
            live = int(memory.live_bytes[step])
            text = json.dumps(f"{op.name}\n{op.type}\n{live} B live")
            lines.append(f"    n{memory.ipu}_{step} [label={text}];")
        chain = " -> ".join(f"n{memory.ipu}_{step}" for step in range(len(steps)))
        lines += [f"    {chain};" if len(steps) > 1 else "", "  }"]
    return "\n".join([line for line in lines if line] + ["}"]) + "\n"


def _file(folder: str, program: str, suffix: str) -> Path:
    """Returns the file of a program in a folder, which is created if needed."""
    return private_files.make_folder(folder) / (_UNSAFE.sub("_", program) + suffix)


#: Functions that write the files of a flag, by its name.
FILES: Mapping[str, Callable[[Any, Any], None]] = {
    "save_interval_report": write_intervals,
    "tensor_map_file_path": write_tensor_map,
    "dump_schedule_as_dot": write_schedule,
}
