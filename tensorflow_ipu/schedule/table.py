"""`Schedule`: the table of each IPU's work in each step, and its sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.schedule import draw, text
from tensorflow_ipu.schedule.description import PipelineDescription
from tensorflow_ipu.schedule.modes import Phase
from tensorflow_ipu.schedule.shares import idle_share
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.short_repr import shows

# Stands in the table for the mini-batch of a weight update, which has none.
NO_MINI_BATCH = -1
_INTEGERS = ("slot", "step", "ipu", "stage", "mini_batch", "phase")
TABLE_TYPE = np.dtype([*((name, np.int32) for name in _INTEGERS), ("fused", np.bool_)])


class Entry(NamedTuple):
    """One cell of a schedule: the work of one IPU in one step.

    Args:
        slot: stretch of steps at whose end all IPUs wait for each other, from 0.
        step: time step, from 0.
        ipu: IPU within the replica.
        stage: pipeline stage.
        mini_batch: mini-batch of the execution, or -1 in an update.
        phase: kind of work.
        fused: whether a backward pass recomputes activations on the way.
    """

    slot: int
    step: int
    ipu: int
    stage: int
    mini_batch: int
    phase: Phase
    fused: bool


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The order of one execution of a pipeline; all executions are alike. Made by `build`.

    Attributes:
        description: The pipeline.
        table: NumPy array of type `TABLE_TYPE`, a row for each entry, ordered by step and IPU. A
            stage with several IPUs has an entry on each of them.
    """

    description: PipelineDescription
    table: np.ndarray = dataclasses.field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Entry]:
        for slot, step, ipu, stage, mini_batch, phase, fused in self.table.tolist():
            yield Entry(slot, step, ipu, stage, mini_batch, Phase(phase), fused)

    __repr__ = shows(
        lambda self: {
            "": self.description.schedule,
            "ipus_of_stages": self.description.ipus_of_stages,
            "mini_batches": self.description.mini_batches,
            "training": self.description.training,
            "steps": self.steps,
        }
    )

    def __str__(self) -> str:
        return self.text()

    @property
    def steps(self) -> int:
        """Number of steps of one execution."""
        return int(self.table["step"].max(initial=-1)) + 1

    @property
    def bubble_share(self) -> float:
        """Idle share of the table's cells, with a row per used IPU and a column per step.

        Exact for the table: every step counts as one, the update's too. `timed` weights steps with
        costs.
        """
        entries = np.bincount(self.table["ipu"], minlength=max(self.description.ipus) + 1)
        return idle_share(entries[list(self.description.ipus)].tolist(), self.steps)

    def in_flight(self) -> tuple[int, ...]:
        """Returns the most mini-batches in flight in each stage, measured in the table.

        Exact. The number is highest when a forward pass starts: then those are in flight whose
        forward pass started and whose backward pass has not ended.
        """
        return tuple(self._in_flight_in(stage) for stage in range(self.description.stages))

    def stash_depths(self) -> tuple[int, ...]:
        """Returns the most mini-batches in the stash of each stage: see `slots.stash_depths`."""
        return tuple(max(number - 1, 0) for number in self.in_flight())

    def text(self, max_steps: int = 24) -> str:
        """Returns the table as text, IPUs as rows and steps as columns.

        Args:
            max_steps: greatest number of steps shown, at least 2. The middle of a longer schedule
                is left out.
        """
        return text.render(self, max_steps)

    def svg(self, max_steps: int = 24) -> str:
        """Returns the table as a self-contained picture in SVG.

        Args:
            max_steps: as for `text`.
        """
        return draw.render(self, max_steps)

    def write_svg(self, path: str | Path, max_steps: int = 24) -> None:
        """Writes the picture to a file.

        Args:
            path: the file.
            max_steps: as for `text`.
        """
        private_files.write_text(path, self.svg(max_steps))

    def _repr_svg_(self) -> str:
        """Returns the picture for notebooks."""
        return self.svg()

    def _in_flight_in(self, stage: int) -> int:
        """Returns the number of mini-batches in flight in one stage."""
        ipu = self.description.ipus_of_stages[stage][0]
        rows = self.table[(self.table["stage"] == stage) & (self.table["ipu"] == ipu)]
        forward = rows["step"][rows["phase"] == Phase.FORWARD]
        if not self.description.training:
            return min(len(forward), 1)
        backward = rows["step"][rows["phase"] == Phase.BACKWARD]
        started = np.arange(1, len(forward) + 1)
        ended = np.searchsorted(backward, forward, side="left")
        return int((started - ended).max(initial=0))
