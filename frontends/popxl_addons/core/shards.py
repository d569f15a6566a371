"""What losses share whose classes are spread over replicas or IPUs."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops


def chosen(x: popxl.Tensor, indices: popxl.Tensor) -> popxl.Tensor:
    """Returns one element of each row, and 0 where the index is that of another shard.

    Args:
        x: the rows, `(n, size)`.
        indices: the position of the element in each row, `(n,)`; any integers.
    """
    positions = popxl.constant(np.arange(x.shape[1]), indices.dtype)
    is_chosen = ops.equal(indices.reshape((-1, 1)), positions)
    zeros = popxl.constant(0.0, x.dtype)
    return ops.sum(ops.where(is_chosen, x, zeros), 1)
