"""Layout of the residents of an IPU on its tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.memory.always_live import Resident
from tensorflow_ipu.planner.memory.code_size import Part
from tensorflow_ipu.planner.memory.details import PlacedResident
from tensorflow_ipu.planner.memory.tile_mapping import Layout
from tensorflow_ipu.planner.plan import Category
from tensorflow_ipu.planner.settings import Settings


class ResidentLayout:
    """Layout of residents: feeds on the I/O tiles, the rest on the compute tiles.

    Args:
        residents: residents of compute tiles, in the order of the layout.
        streams: stream buffers of feeds.
        parts: code and other memory of equal size on each tile.
        settings: number of tiles.

    Attributes:
        residents: All residents.
        tiles: Bytes on each tile, int64.
    """

    def __init__(
        self,
        residents: Sequence[Resident],
        streams: Sequence[Resident],
        parts: Sequence[Part],
        settings: Settings,
    ) -> None:
        self.residents = (*residents, *streams)
        self._parts, self._all = parts, settings.chip.tiles
        self._places: list[tuple[Resident, int, np.ndarray]] = []
        compute, moving = Layout(settings.compute_tiles), Layout(max(settings.io_tiles, 1))
        numbers = [(resident, compute.add(resident.num_bytes)) for resident in residents]
        moved = []
        room = settings.io_tiles * int(
            settings.chip.memory_per_tile * settings.io_memory_proportion
        )
        for stream in streams:
            # Streams beyond the room of I/O tiles are on the compute tiles, as without I/O tiles.
            if stream.num_bytes <= room:
                room -= stream.num_bytes
                moved.append((stream, moving.add(stream.num_bytes)))
            else:
                numbers.append((stream, compute.add(stream.num_bytes)))
        for layout, found, offset in (
            (compute, numbers, 0),
            (moving, moved, settings.compute_tiles),
        ):
            order = layout.order()
            for resident, number in found:
                self._places.append((resident, offset, layout.tiles(number, order)))
        self._by_category = self._sums()
        self.tiles = sum(self._by_category.values(), np.zeros(self._all, np.int64))
        self.tiles = self.tiles + sum(part.num_bytes for part in parts)

    def categories(self) -> list[Category]:
        """Returns the memory by category, tensors first."""
        labels: dict[str, list[Label]] = {}
        for resident in self.residents:
            labels.setdefault(resident.category, []).append(resident.label)
        found = [
            Category(name, True, tiles, worst(labels[name]))
            for name, tiles in self._by_category.items()
        ]
        for part in self._parts:
            if part.num_bytes:
                tiles = np.full(self._all, part.num_bytes, np.int64)
                found.append(Category(part.name, True, tiles, part.label))
        return found

    def placed(self) -> Iterator[PlacedResident]:
        """Yields all residents with their bytes on each tile of the IPU, code last."""
        for resident, offset, counts in self._places:
            tiles = np.zeros(self._all, np.int64)
            tiles[offset : offset + len(counts)] = counts
            yield PlacedResident(resident, tiles)
        for part in self._parts:
            if part.num_bytes:
                tiles = np.full(self._all, part.num_bytes, np.int64)
                whole = Resident(part.name, part.name, int(tiles.sum()), part.label)
                yield PlacedResident(whole, tiles)

    def _sums(self) -> Mapping[str, np.ndarray]:
        """Returns the bytes on each tile by category."""
        found: dict[str, np.ndarray] = {}
        for resident, offset, counts in self._places:
            tiles = found.setdefault(resident.category, np.zeros(self._all, np.int64))
            tiles[offset : offset + len(counts)] += counts
        return found
