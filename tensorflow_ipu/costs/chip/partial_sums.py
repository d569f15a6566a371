"""Cycles to add up partial sums that several tiles have.

Whole numbers or NumPy arrays of them, as in `amp`. Constants are those of poplibs' planner.
"""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.amp import Number

# A reduction: 33 for the supervisor, 20 + 10 per worker.
_CYCLES, _WORKER_CYCLES = 33, 30
# Reductions of so many partial sums and more take a second and a third stage.
_TWO_STAGES, _THREE_STAGES = 16, 125


def stages(partials: Number) -> Number:
    """Returns the stages of a reduction: none of 1 partial sum, two from 16 on, three from 125.

    Args:
        partials: tiles that have a partial sum of the same result.
    """
    count = np.asarray(partials)
    return (count > 1) * (1 + (count >= _TWO_STAGES) + (count >= _THREE_STAGES))


def adding_cycles(num_bytes: Number, partials: Number, chip: Chip) -> Number:
    """Returns the cycles of a tile to add up partial sums, with those of the compute sets.

    Each tile adds its part of the sums of all others, 16 bytes per cycle; each stage has a start.

    Args:
        num_bytes: partial sums that the tile receives.
        partials: tiles that have a partial sum of the same result.
        chip: the chip.
    """
    start = _CYCLES + chip.workers_per_tile * _WORKER_CYCLES + chip.compute_set_cycles
    count = stages(partials)
    return np.where(count > 0, num_bytes / chip.load_rate + count * start, 0)
