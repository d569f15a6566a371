"""Dataset transformations of `tensorflow.contrib.data`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def batch_and_drop_remainder(batch_size: int) -> Callable[[Any], Any]:
    """Returns a transformation for `Dataset.apply` that makes batches of one size.

    Args:
        batch_size: elements of each batch; the last ones that are fewer are dropped.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)
