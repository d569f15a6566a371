"""`Trial`: a configuration that was planned."""

from __future__ import annotations

import dataclasses
import functools

from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.structure import structure
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning.search.choices import Choices
from tensorflow_ipu.tuning.stages.stage_cut import Stage


@dataclasses.dataclass(frozen=True)
class Trial:
    """A configuration and its plan.

    Attributes:
        choices: The changes.
        plan: Memory and time with the changes.
        parts: The layers of each stage or shard; empty where the program keeps its own.
    """

    choices: Choices
    plan: Plan = dataclasses.field(repr=False)
    parts: tuple[Stage, ...] = dataclasses.field(default=(), repr=False)

    @functools.cached_property
    def worst(self) -> int:
        """Bytes on the fullest tile."""
        return self.plan.fullest.worst_bytes

    @property
    def fits(self) -> bool:
        """Whether no tile exceeds its memory."""
        return self.worst <= self.plan.fullest.capacity

    @functools.cached_property
    def speed(self) -> float:
        """Elements of data per second, of all replicas."""
        return throughput.items_per_second(self.plan)

    @property
    def ipus(self) -> int:
        """IPUs that all replicas occupy."""
        return throughput.reserved_ipus(self.plan.workload.ipus) * self.plan.settings.replicas

    @functools.cached_property
    def update_items(self) -> int:
        """Elements of data of all replicas that one weight update is made of."""
        workload = self.plan.workload
        updates = structure(workload).updates
        return throughput.items_per_launch(workload) * self.plan.settings.replicas // updates

    @property
    def memory_label(self) -> Label:
        """Label of the bytes."""
        return throughput.memory_label(self.plan)

    @property
    def time_label(self) -> Label:
        """Label of the speed: a changed program was not compiled."""
        changed = [Label.MODELLED] if self.choices.made() else []
        return worst([self.plan.timeline.label, *changed])
