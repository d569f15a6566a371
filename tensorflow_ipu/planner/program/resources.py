"""Resources of each op (chip, tiles, options), and its cost with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache

from tensorflow_ipu.configs import enums
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import FREE, Cost, Resources
from tensorflow_ipu.planner.program import fused_maps
from tensorflow_ipu.planner.program.fused_maps import FusedMaps
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Op, Workload

CONVOLUTION = "convolution"
MATMUL = "matmul"
SLICE = "slice"

_SLICES = ("Gather", "Scatter", "Slice", "Segment", "Embedding")


class ResourceTable:
    """The Resources of ops, cached by family of ops, stage, phase and options.

    Args:
        settings: chip, replicas and options.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[tuple[object, ...], Resources] = {}

    def of(self, op: Op) -> Resources:
        """Returns the resources of an op: chip, tiles and options.

        Args:
            op: the op.
        """
        proportion, sums = op.attributes.get("memory_proportion"), op.attributes.get("partials")
        key = (family(op.type), op.stage, op.phase, proportion, sums)
        found = self._known.get(key)
        if found is None:
            found = self._make(*key[:3])
            if proportion is not None:
                found = dataclasses.replace(found, memory_proportion=proportion)
            if sums is not None:
                found = dataclasses.replace(found, partials=sums)
            self._known[key] = found
        return found

    def cost(self, op: Op) -> Cost:
        """Returns the cost of one execution of an op.

        Args:
            op: the op.

        Raises:
            RuntimeError: the cost rule of the op failed, which is a fault of the rule.
        """
        resources = self.of(op)
        try:
            return catalogue.cost_of(op.spec, resources)
        except Exception as error:
            place = f", {op.source}" if op.source else ""
            raise RuntimeError(
                f"The cost of the op '{op.name}' ({op.type}{place}) is not known, because the cost "
                f"rule of {op.type} has a fault: {type(error).__name__}: {error}."
            ) from error

    def _make(self, of_family: str, stage: int | None, phase: str) -> Resources:
        settings = self._settings
        options: Mapping[str, str] = {}
        if stage is not None and phase in ("", "backward"):
            options = settings.stage_options.get((stage, phase or "forward"), {})
        library, proportion, sums = {
            CONVOLUTION: (
                "convolutions",
                settings.convolution_proportion,
                settings.convolution_partials,
            ),
            MATMUL: ("matmuls", settings.matmul_proportion, settings.matmul_partials),
            SLICE: ("slices", settings.slice_proportion, settings.matmul_partials),
        }[of_family]

        def option(name: str, default: float | str) -> float | str:
            return options.get(f"{library}.{name}", options.get(name, default))

        chosen = str(option(enums.PARTIALS_OPTION, sums))
        return Resources(
            settings.chip,
            settings.compute_tiles,
            float(option("availableMemoryProportion", proportion)),
            enums.PARTIALS_OF_OPTION.get(chosen, chosen),
            settings.replicas,
            # Other ops make the operands, in layouts of their own.
            allocated=False,
        )


def costs_of(
    workload: Workload, settings: Settings, maps: FusedMaps | None = None
) -> tuple[Cost, ...]:
    """Returns the cost of one execution of each op, free on the host.

    The last op of a fused group has the cost of the group; the others are free.

    Args:
        workload: the program.
        settings: chip, replicas and options.
        maps: the fused groups, if they are known.

    Raises:
        ValueError: all tiles are I/O tiles.
        RuntimeError: the cost rule of an op failed, which is a fault of the rule.
    """
    if settings.compute_tiles < 1:
        raise ValueError(
            f"At least one tile of an IPU must compute, but of its {settings.chip.tiles} tiles "
            f"{settings.io_tiles} are I/O tiles: have fewer of these."
        )
    table = ResourceTable(settings)
    costs = [
        FREE if op.ipu is None or workload.moves_entry(op) else table.cost(op)
        for op in workload.ops
    ]
    maps = fused_maps.find(workload) if maps is None else maps
    for last, indices in maps.ops.items():
        members = [workload.ops[index] for index in indices]
        by_themselves = [costs[index] for index in indices]
        given = table.of(members[-1])
        cost = fused_maps.cost_of(members, by_themselves, given, maps.vertices.get(last))
        for index in indices:
            costs[index] = FREE
        costs[last] = cost
    return tuple(costs)


@lru_cache(maxsize=1024)
def family(op_type: str) -> str:
    """Returns the family of ops whose options apply: `convolution`, `matmul` or `slice`.

    Args:
        op_type: type of the op. Others have the options of matrix multiplications.
    """
    if "Conv" in op_type:
        return CONVOLUTION
    return SLICE if any(part in op_type for part in _SLICES) else MATMUL
