"""A Workload with its pipeline stages on the IPUs that Settings want."""

from __future__ import annotations

import dataclasses
import functools

from tensorflow_ipu.planner.program import accesses as access
from tensorflow_ipu.planner.program import fused_maps, partial_gradients, remade_values
from tensorflow_ipu.planner.program.accesses import Accesses
from tensorflow_ipu.planner.program.fused_maps import FusedMaps
from tensorflow_ipu.planner.program.partial_gradients import PartialGradient
from tensorflow_ipu.planner.program.placement import (
    Placement,
    find,
    moved_pipeline,
    relocated,
)
from tensorflow_ipu.planner.program.remade_values import RemadeValues
from tensorflow_ipu.planner.program.structure import sections_of
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.workload import Workload


@dataclasses.dataclass(frozen=True)
class PlacedWorkload:
    """A program with the IPU of each op, buffer and variable.

    Memory and time are both planned from it. It does not depend on the chip, nor on options.

    Attributes:
        workload: The program as it was compiled.
        pipeline: Its pipeline, with stages on their final IPUs; None without one.
        placement: IPUs of its ops, buffers and variables.
        relocated: The program on these IPUs, with the copies between them.
    """

    workload: Workload
    pipeline: PipelineDescription | None
    placement: Placement
    relocated: Workload

    @functools.cached_property
    def accesses(self) -> Accesses:
        """Accesses of ops to memory, without buffers in registers of fused groups."""
        return self._accesses(RemadeValues())

    @functools.cached_property
    def remade_accesses(self) -> Accesses:
        """Accesses with recomputed elementwise results, which take no memory."""
        values = remade_values.find(self.workload)
        return self._accesses(values) if values.buffers else self.accesses

    @functools.cached_property
    def all_accesses(self) -> Accesses:
        """Accesses with each fused group expanded to its ops; dependences follow from them."""
        return access.find(self.workload, self.placement)

    @functools.cached_property
    def maps(self) -> FusedMaps:
        """The fused groups of elementwise ops."""
        return fused_maps.find(self.workload)

    @functools.cached_property
    def partial_gradients(self) -> tuple[PartialGradient, ...]:
        """The gradients that stages of a pipeline add to accumulators by themselves."""
        return partial_gradients.find(self.workload)

    @functools.cached_property
    def sections(self) -> tuple[str, ...]:
        """Section of each op: `forward`, `backward`, `update`, or empty."""
        return sections_of(self.workload)

    def _accesses(self, values: RemadeValues) -> Accesses:
        """Returns the accesses of ops to memory, with some results recomputed by their readers."""
        parts = self.partial_gradients
        # A part of a gradient is done with as soon as it is made.
        more = [(part.maker, part.buffer) for part in parts]
        without = [(part.sum, part.buffer) for part in parts]
        found = self.all_accesses
        if values.reads or more:
            found = access.find(self.workload, self.placement, [*more, *values.reads], without)
        return found.without(self.maps.kept_in_registers | values.buffers)


def place(workload: Workload, stage_devices: tuple[int, ...] | None = None) -> PlacedWorkload:
    """Places a program.

    Args:
        workload: the program.
        stage_devices: IPU of each pipeline stage; None leaves stages where they are.

    Raises:
        ValueError: the program has another number of stages.
    """
    pipeline = moved_pipeline(workload, stage_devices)
    placement = find(workload, pipeline)
    return PlacedWorkload(workload, pipeline, placement, relocated(workload, pipeline, placement))
