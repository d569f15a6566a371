"""`MemoryDetails`: the tensors of an IPU with their tiles and live ranges."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.cost import TensorType
from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.memory.residents import PlacedResident
from tensorflow_ipu.planner.memory.tile_mapping import Interval
from tensorflow_ipu.planner.workload import Buffer
from tensorflow_ipu.util.short_repr import shows

#: Category of the memory that an op needs while it runs.
TEMPORARIES = "temporaries"


class Stretch(NamedTuple):
    """A tensor that is on an IPU for some steps, spread evenly from tile 0.

    Args:
        buffer: index into `Workload.buffers`.
        category: name of its category.
        num_bytes: on all tiles.
        birth: first step at which it takes memory.
        death: last one.
    """

    buffer: int
    category: str
    num_bytes: int
    birth: int
    death: int


@dataclasses.dataclass(frozen=True)
class MemoryDetails:
    """The memory of one IPU tensor by tensor: the summands of `IpuMemory`.

    Steps are the ops of the IPU in the order in which they run. At a step there are all residents,
    the stretches with `birth <= step <= death`, and the temporaries of its op.

    Attributes:
        ipu: IPU within the replica.
        residents: Residents, code included.
        steps: Op of each step, int32 indices into `Workload.ops`.
        stretches: Transient tensors with their live ranges.
        temporaries: Bytes of an op's temporaries on a tile at each step, int64.
        temporary_tiles: Number of tiles with temporaries at each step, from tile 0, int64.
        compute_tiles: Tiles, from tile 0, over which stretches are spread.
        tiles: Tiles of the IPU; tiles that do not compute are I/O tiles.
    """

    ipu: int
    residents: tuple[PlacedResident, ...]
    steps: np.ndarray
    stretches: tuple[Stretch, ...]
    temporaries: np.ndarray
    temporary_tiles: np.ndarray
    compute_tiles: int
    tiles: int

    __repr__ = shows(
        lambda self: {
            "ipu": self.ipu,
            "residents": len(self.residents),
            "steps": len(self.steps),
            "stretches": len(self.stretches),
        }
    )

    def live(self, step: int) -> tuple[Stretch, ...]:
        """Returns the transient tensors that are live at one step, without its op's temporaries.

        Args:
            step: number of the step.

        Raises:
            IndexError: there is no such step.
        """
        if not 0 <= step < len(self.steps):
            raise IndexError(
                f"IPU {self.ipu} has the steps 0 to {len(self.steps) - 1}; received {step}."
            )
        return tuple(each for each in self.stretches if each.birth <= step <= each.death)

    def worst(self, stretches: Sequence[Stretch]) -> list[int]:
        """Returns the bytes of some stretches on tile 0, the fullest tile.

        Args:
            stretches: any of them.
        """
        sizes = np.array([stretch.num_bytes for stretch in stretches], np.int64)
        found: list[int] = tile_mapping.fullest(sizes, self.compute_tiles).tolist()
        return found

    def on_tile(self, tile: int, step: int | None, names: Sequence[str]) -> list[tuple[str, int]]:
        """Returns names and bytes of the tensors on one tile at one step.

        Args:
            tile: number of the tile.
            step: number of the step; None for residents only.
            names: of all buffers.

        Returns:
            Residents, stretches and temporaries with bytes on the tile.

        Raises:
            IndexError: there is no such tile or step.
        """
        if not 0 <= tile < self.tiles:
            raise IndexError(
                f"IPU {self.ipu} has the tiles 0 to {self.tiles - 1}; received {tile}."
            )
        found = [(resident.name, int(tiles[tile])) for resident, tiles in self.residents]
        live = () if step is None else self.live(step)
        if tile < self.compute_tiles and step is not None:
            for stretch in live:
                share = tile_mapping.spread(stretch.num_bytes, self.compute_tiles)
                size = int(tile_mapping.share_bytes(share, self.compute_tiles)[tile])
                found.append((names[stretch.buffer], size))
            here = tile < self.temporary_tiles[step]
            found.append((TEMPORARIES, int(self.temporaries[step]) if here else 0))
        return [(name, size) for name, size in found if size]

    def mapping(self, buffers: Sequence[Buffer]) -> dict[int, tuple[Interval, ...]]:
        """Returns the tiles and elements of each buffer that the IPU ever has.

        Args:
            buffers: the buffers of the program.
        """
        found: dict[int, tuple[Interval, ...]] = {}
        for resident, tiles in self.residents:
            if resident.buffer is not None:
                size = buffers[resident.buffer].type.element_size
                found[resident.buffer] = tile_mapping.intervals(tiles, max(size, 1))
        for index in dict.fromkeys(stretch.buffer for stretch in self.stretches):
            if index not in found:
                buffer = buffers[index]
                whole = TensorType(buffer.dtype, (buffer.entries, *buffer.shape))
                found[index] = tile_mapping.linear(whole, self.compute_tiles)
        return found
