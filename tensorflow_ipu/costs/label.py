"""`Label`: how far a number can be trusted (exact, modelled or assumed)."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Label(str, enum.Enum):
    """How far a number can be trusted, from most to least certain."""

    EXACT = "exact"  # follows from the program's definition
    MODELLED = "modelled"  # from a published formula or a figure of the chip
    ASSUMED = "assumed"  # a round figure, for lack of a better one


_ORDER = tuple(Label)


def worst(labels: Iterable[Label]) -> Label:
    """Returns the least certain of some labels: the label of a number made from all of them.

    Args:
        labels: any number of them; none at all is exact.
    """
    return max(labels, key=_ORDER.index, default=Label.EXACT)
