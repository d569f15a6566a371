"""Raw ops below `rand_ops`: the public module `gen_poprand_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops import rand_ops
from tensorflow_ipu.ops.raw import missing_in

__all__ = ["ipu_dropout"]

__getattr__ = missing_in("gen_poprand_ops", __all__, "ipu.rand_ops")


def ipu_dropout(
    input: Any,  # noqa: A002
    rate: float = 0.5,
    seed: Any = None,
    noise_shape: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """Drops elements of a tensor at random: see `rand_ops.dropout`.

    Args:
        input: the tensor.
        rate: the probability that an element is dropped.
        seed: two integers that fix the mask, or None.
        noise_shape: shape of the mask; the tensor's shape if None.
        name: name for the op.
    """
    return rand_ops.dropout(input, rate, noise_shape, seed, name)
