"""Work of a source's programs besides the measured op, and the release of their SDK.

A row is decided by its source, in this module and nowhere else:

* Peng et al. 2024 (TensorFlow 1.15): the program copies operands and result at each repetition. In
  their rows of ReLU (one operand) and of squares (two) the time of large tensors grows by 2.5 and
  3.8 cycles for each byte that a tile has of a tensor. The kernels need 0.3 cycles, so one copied
  tensor costs 1.1. Tensors of a few bytes take 2,100 and 2,900 cycles: 700, and 700 for each copy.
  Products copy the first operand and the result; the weights stay. Their shortest, of 128 rows,
  takes 2,660 cycles in all, so it has the first 700 only.
* Jia et al. 2019 (SDK 1.0): streams of the host contain the launch and the synchronisation with the
  host, 8.8 us. No other row of the source can: the shortest products and exchanges take less.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.cost import Resources, TensorType
from tensorflow_ipu.costs.releases import CURRENT, SDK_1_0

from .rows import NotExpressible, Row

# Proportion of memory for temporaries: the library's default.
_PROPORTION = 0.6


class Harness(NamedTuple):
    """The program around a measured op.

    Args:
        start: cycles of a repetition besides the op.
        tensor: cycles for each copied tensor.
        copy: cycles for each byte that a tile has of a copied tensor.
    """

    start: float = 0.0
    tensor: float = 0.0
    copy: float = 0.0

    def cycles(self, copied: tuple[TensorType, ...], chip: Chip) -> float:
        """Returns the cycles of the program besides the op.

        Args:
            copied: tensors that the program copies.
            chip: the chip.
        """
        num_bytes = sum(tensor.num_bytes for tensor in copied)
        return self.start + self.tensor * len(copied) + self.copy * num_bytes / chip.tiles


_NONE = Harness()
#: By a word of the source, for products and for elementwise operations: see above.
HARNESSES: dict[str, tuple[Harness, Harness]] = {
    "peng et al": (Harness(start=700, copy=1.12), Harness(start=700, tensor=700, copy=1.12))
}

#: Seconds of launch and synchronisation with the host, in rows of streams of Jia et al.
LAUNCH = 8.8e-6


def harness_of(row: Row, elementwise: bool = False) -> Harness:
    """Returns the program around the op of a row; one without cycles where the source has none.

    Args:
        row: the measurement.
        elementwise: whether the op is elementwise; else it is a product or a convolution.
    """
    source = row.source.lower()
    found = next((pair for word, pair in HARNESSES.items() if word in source), (_NONE, _NONE))
    return found[elementwise]


def is_first_release(row: Row) -> bool:
    """Returns whether a row was measured with the libraries of SDK 1.0."""
    return re.search(r"sdk 1\.0\b", row.chip.lower()) is not None


def resources(
    row: Row,
    chip: Chip,
    partials: str = "float32",
    tiles: int | None = None,
    allocated: bool = True,
) -> Resources:
    """Returns the resources of a row's op.

    Args:
        row: the measurement.
        chip: of the row.
        partials: type of partial sums.
        tiles: those that take part; all if left out.
        allocated: whether operands have the layout that the library allocates, not a linear one.

    Raises:
        NotExpressible: the row has more tiles than the chip, or no proportion from 0 to 1.
    """
    proportion = row.number("availablememoryproportion", "proportion")
    if proportion is not None and not 0 < proportion <= 1:
        raise NotExpressible("availableMemoryProportion is not between 0 and 1")
    if tiles is not None and tiles > chip.tiles:
        raise NotExpressible("more tiles than the chip has")
    return Resources(
        chip,
        tiles or chip.tiles,
        _PROPORTION if proportion is None else proportion,
        partials,
        release=SDK_1_0 if is_first_release(row) else CURRENT,
        allocated=allocated,
    )
