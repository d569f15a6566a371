"""`plan`: computes memory and time of a Workload for Settings."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.planner.memory import lifetimes, memory_plan
from tensorflow_ipu.planner.memory.details import MemoryDetails
from tensorflow_ipu.planner.memory.lifetimes import Lifetimes
from tensorflow_ipu.planner.memory.tile_mapping import Interval
from tensorflow_ipu.planner.plan import IpuMemory, Plan, Timeline
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.program.fused_maps import FusedMaps
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.planner.program.resources import costs_of
from tensorflow_ipu.planner.program.structure import Structure, structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import timeline
from tensorflow_ipu.planner.time.items import Item
from tensorflow_ipu.planner.workload import Workload


def plan(workload: Workload, settings: Settings) -> Plan:
    """Plans memory and time of a Workload.

    Args:
        workload: the program.
        settings: chip, replicas and options.

    Returns:
        The plan. A program that does not fit is no error here: see `capacity`.

    Raises:
        ValueError: the settings do not suit the program, such as stages it does not have.
    """
    return Planner(workload).plan(settings)


class Planner:
    """Plans of one program for any number of Settings.

    Placement and live ranges are computed once for all Settings that agree in `stage_devices`,
    `ordering` and whether activations may be recomputed. All methods raise ValueError if the
    settings do not suit the program.

    Attributes:
        workload: The program.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._placed: dict[tuple[int, ...] | None, PlacedWorkload] = {}
        self._orders: dict[tuple[tuple[int, ...] | None, str], list[Lifetimes]] = {}
        self._lifetimes: dict[tuple[tuple[int, ...] | None, str, bool], Lifetimes] = {}

    @functools.cached_property
    def structure(self) -> Structure:
        """Section and layer of each op."""
        return structure(self.workload)

    def plan(self, settings: Settings) -> Plan:
        """Plans memory and time.

        Args:
            settings: chip, replicas and options.
        """
        costs = costs_of(self.workload, settings, self.maps(settings))
        return Plan(
            self.workload,
            settings,
            memory_plan.plan(self._find_lifetimes(settings), settings, costs),
            timeline.plan(self._place(settings), settings, costs),
        )

    def memory(self, settings: Settings) -> tuple[IpuMemory, ...]:
        """Plans the memory of each IPU of a replica.

        Args:
            settings: chip, replicas and options.
        """
        costs = costs_of(self.workload, settings, self.maps(settings))
        return memory_plan.plan(self._find_lifetimes(settings), settings, costs)

    def mappings(self, settings: Settings) -> tuple[Mapping[int, tuple[Interval, ...]], ...]:
        """Returns the tile mapping of each buffer; see `replica.mappings`.

        Args:
            settings: chip, replicas and options.
        """
        costs = costs_of(self.workload, settings, self.maps(settings))
        return memory_plan.mappings(self._find_lifetimes(settings), settings, costs)

    def maps(self, settings: Settings) -> FusedMaps:
        """Returns the fused groups of elementwise ops.

        Args:
            settings: chip, replicas and options.
        """
        return self._place(settings).maps

    def details(
        self, settings: Settings, costs: Sequence[Cost]
    ) -> tuple[tuple[Item, ...], np.ndarray, tuple[MemoryDetails, ...]]:
        """Returns the ops, transfers and tensors that memory and time are sums of.

        Args:
            settings: chip, replicas and options.
            costs: cost of each op with these settings.

        Returns:
            Ops and transfers in the order of the program; indices of the ops in the order of
            execution; the memory of each IPU tensor by tensor.
        """
        found = self._find_lifetimes(settings)
        items = timeline.items(self._place(settings), settings, costs)
        return tuple(items), found.order.ops, memory_plan.details(found, settings, costs)

    def timeline(self, settings: Settings) -> Timeline:
        """Times one launch.

        Args:
            settings: chip, replicas and options.
        """
        costs = costs_of(self.workload, settings, self.maps(settings))
        return timeline.plan(self._place(settings), settings, costs)

    def _place(self, settings: Settings) -> PlacedWorkload:
        """Returns the program with its stages on the IPUs that the settings choose."""
        key = settings.stage_devices
        if key not in self._placed:
            self._placed[key] = placed_workload.place(self.workload, key)
        return self._placed[key]

    def _find_lifetimes(self, settings: Settings) -> Lifetimes:
        """Returns the live ranges of the program's memory."""
        recompute = lifetimes.recomputes(self.workload, settings)
        ways = settings.stage_devices, settings.ordering
        if ways not in self._orders:
            self._orders[ways] = lifetimes.find(self._place(settings), settings.ordering)
        key = *ways, recompute
        if key not in self._lifetimes:
            self._lifetimes[key] = lifetimes.best(self._orders[ways], recompute)
        return self._lifetimes[key]
