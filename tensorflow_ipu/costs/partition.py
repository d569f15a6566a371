"""`Partition`: how an op is divided over the tiles of an IPU."""

from __future__ import annotations

import math
from typing import NamedTuple


class Partition(NamedTuple):
    """How an op is divided over the tiles of an IPU.

    Args:
        parts: in how many parts each dimension is, by name, such as `(("rows", 24), ("columns", 1),
            ("indices", 50))`.
        serial: parts that are done one after the other because memory is short.
        partials: element type of partial sums; empty if the op has none.
    """

    parts: tuple[tuple[str, int], ...]
    serial: int = 1
    partials: str = ""

    @property
    def tiles(self) -> int:
        """Tiles that take part."""
        return math.prod(count for _, count in self.parts)

    def __str__(self) -> str:
        """The dimensions that are divided, such as `rows 24, indices 50; partials float32`."""
        divided = ", ".join(f"{name} {count}" for name, count in self.parts if count > 1)
        serial = f"{self.serial} serial parts" if self.serial > 1 else ""
        partials = f"partials {self.partials}" if self.partials else ""
        return "; ".join(text for text in (divided or "1 tile", serial, partials) if text)
