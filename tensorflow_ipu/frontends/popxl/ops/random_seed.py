"""Seeds that follow from seeds: the module `popxl.ops.random_seed`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant


def as_pair(seed: Any) -> Any:
    """Returns a seed as TensorFlow takes it.

    Args:
        seed: the seed.
    """
    return tf.bitcast(seed, tf.int32)


def _split_spec(specs: shapes.Specs) -> list[TensorSpec]:
    return [specs[0]] * (len(specs) - 1)


def _split(seed: Any, *modifiers: Any) -> list[Any]:
    """A number for each modifier, drawn from the seed plus it."""
    seeds = []
    for modifier in modifiers:
        moved = tf.stack([seed[0], seed[1] + modifier])
        drawn = tf.random.stateless_uniform([1], as_pair(moved), None, None, tf.int32)
        seeds.append(tf.concat([seed[:1], tf.bitcast(drawn, tf.uint32)], 0))
    return seeds


_SPLIT = register(OpKind("SplitRandomSeed", _split_spec, _split, Gradient.CUT))


def create_random_seed(seed: Tensor, modifier: int) -> Tensor:
    """Returns one of the seeds that follow from a seed.

    Args:
        seed: the seed, uint32 of the shape `(2,)`.
        modifier: which of them: from 0, as `split_random_seed` counts them.

    Raises:
        ValueError: If the seed has another shape or type, or the modifier is negative.
    """
    if not 0 <= modifier < 2**32:
        raise ValueError(f"modifier must be an integer from 0 to 2**32 - 1. Received: {modifier!r}")
    return _seeds(seed, [modifier])[0]


def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """Returns seeds that follow from one.

    Args:
        seed: the seed, uint32 of the shape `(2,)`.
        n: how many.

    Raises:
        ValueError: If the seed has another shape or type.
    """
    return tuple(_seeds(seed, range(n)))


def _seeds(seed: Tensor, modifiers: Iterable[int]) -> list[Tensor]:
    """Adds the op that makes a seed for each modifier."""
    check_seed(seed)
    numbers = [constant(modifier, dtypes.uint32, "modifier") for modifier in modifiers]
    return building.add_all(_SPLIT, [seed, *numbers])


def check_seed(seed: Tensor) -> Tensor:
    """Returns a seed, or refuses what is none.

    Args:
        seed: the seed.

    Raises:
        ValueError: If its shape or type is another one.
    """
    building.check_in_graph(context.get_current_graph(), [seed])
    if seed.shape != (2,) or seed.dtype is not dtypes.uint32:
        raise ValueError(f"A seed must be shape=(2,) and dtype=popxl.uint32. Received: {seed!r}")
    return seed
