"""Labels a cost by the chip figures that it rests on."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip, Status
from tensorflow_ipu.costs.label import Label


def label_of(chip: Chip, *names: str) -> Label:
    """Returns `assumed` if any of some figures of a chip is uncertain, else `modelled`.

    Args:
        chip: the chip.
        names: names of the figures.
    """
    uncertain = any(chip.sources[name].status is Status.UNCERTAIN for name in names)
    return Label.ASSUMED if uncertain else Label.MODELLED
