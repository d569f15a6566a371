"""`Label`: certainty of a number (exact, modelled or assumed), also of the figures of a chip."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tensorflow_ipu.configs.chips import Chip, Status


class Label(str, enum.Enum):
    """Certainty of a number, from most to least certain."""

    EXACT = "exact"  # follows from the program's definition
    MODELLED = "modelled"  # from a published formula or a figure of the chip
    ASSUMED = "assumed"  # a round figure, for lack of a better one


_ORDER = tuple(Label)


def worst(labels: Iterable[Label]) -> Label:
    """Returns the least certain of some labels: the label of their sum.

    Args:
        labels: any number of them; none at all is exact.
    """
    return max(labels, key=_ORDER.index, default=Label.EXACT)


def label_of(chip: Chip, *names: str) -> Label:
    """Returns `assumed` if any of some figures of a chip is uncertain, else `modelled`.

    Args:
        chip: the chip.
        names: names of the figures.
    """
    uncertain = any(chip.sources[name].status is Status.UNCERTAIN for name in names)
    return Label.ASSUMED if uncertain else Label.MODELLED
