"""Random numbers: seeds that the host makes, and the ops that draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant

__all__ = [
    "MAX_UINT64",
    "create_seeds",
    "dropout",
    "random_normal",
    "random_uniform",
    "shaped_dropout",
    "split_random_seed",
    "two_uint32_to_uint64",
    "uint64_to_two_uint32",
]


_WORD = 2**32
MAX_UINT64 = 2**64 - 1


def create_seeds(
    seed: int,
    offset: int = 0,
    batches_per_step: int = 1,
    gradient_accumulation_factor: int = 1,
    replicas: int = 1,
) -> np.ndarray:
    """Returns seeds for the runs of a program.

    Args:
        seed: where they come from.
        offset: a summand of the seed, to get other seeds later.
        batches_per_step: how many batches a run has.
        gradient_accumulation_factor: how many micro-batches a batch has.
        replicas: how many replicas there are.

    Returns:
        uint32 of the shape `(batches, micro-batches, replicas, 2)`, without dimensions of size 1.
    """
    shape = (batches_per_step, gradient_accumulation_factor, replicas)
    numbers = np.random.default_rng(seed + offset).integers(
        0, MAX_UINT64, endpoint=True, dtype=np.uint64, size=int(np.prod(shape))
    )
    words = np.stack([numbers >> np.uint64(32), numbers & np.uint64(_WORD - 1)], axis=-1)
    return np.squeeze(words.astype(np.uint32).reshape(*shape, 2))


def uint64_to_two_uint32(num: int) -> tuple[int, int]:
    """Returns the upper and the lower half of a number.

    Args:
        num: the number, of 64 bits.

    Raises:
        ValueError: If it is out of range.
    """
    if not 0 <= num < _WORD**2:
        raise ValueError(f"Number is negative or cannot be represented as a uint64: {num}")
    return divmod(int(num), _WORD)


def two_uint32_to_uint64(a: int, b: int) -> int:
    """Returns the number with two halves.

    Args:
        a: the upper half, of 32 bits.
        b: the lower half.

    Raises:
        ValueError: If one is out of range.
    """
    if not (0 <= a < _WORD and 0 <= b < _WORD):
        raise ValueError(
            f"Either `a` or `b` are negative or cannot be represented as a uint32: {a}, {b}"
        )
    return int(a) * _WORD + int(b)


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


_SPLIT = register(OpKind("SplitRandomSeed", _split_spec, _split, GradientRule.CUT))


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
    """Returns a seed, or raises if its shape or type is wrong.

    Args:
        seed: the seed.

    Raises:
        ValueError: If its shape or type is another one.
    """
    building.check_in_graph(context.get_current_graph(), [seed])
    if seed.shape != (2,) or seed.dtype is not dtypes.uint32:
        raise ValueError(f"A seed must be shape=(2,) and dtype=popxl.uint32. Received: {seed!r}")
    return seed


def _random_spec(specs: shapes.Specs, spec: TensorSpec, **_: Any) -> list[TensorSpec]:
    return [spec]


def _uniform(seed: Any, spec: TensorSpec, low: float, high: float) -> Any:
    numbers = tf.random.stateless_uniform(spec.shape, as_pair(seed), low, high, tf.float32)
    return tf.cast(tf.floor(numbers) if spec.dtype.is_int else numbers, tf_type(spec.dtype))


def _normal(seed: Any, spec: TensorSpec, mean: float, std: float) -> Any:
    numbers = tf.random.stateless_normal(spec.shape, as_pair(seed), mean, std, tf.float32)
    return tf.cast(numbers, tf_type(spec.dtype))


def _dropout_spec(specs: shapes.Specs, shape: tuple[int, ...], ratio: float) -> list[TensorSpec]:
    t = specs[0]
    padded = (*[1] * (t.rank - len(shape)), *shape)
    if len(padded) > t.rank or any(m not in (1, size) for m, size in zip(padded, t.shape)):
        raise popart_exception(
            f"Dropout: a mask of the shape {shape} cannot be broadcast to {t.shape}."
        )
    return [t]


def _dropout(t: Any, seed: Any, shape: tuple[int, ...], ratio: float) -> Any:
    """Keeps elements with a mask that depends on the seed and the shape only."""
    if not ratio:
        return tf.identity(t)
    numbers = tf.random.stateless_uniform(shape, as_pair(seed), dtype=tf.float32)
    mask = tf.where(numbers < ratio, 0.0, 1 / (1 - ratio))
    return t * tf.cast(mask, t.dtype)


_DROPOUT = register(OpKind("Dropout", _dropout_spec, _dropout))
_NORMAL = register(OpKind("RandomNormal", _random_spec, _normal, GradientRule.CUT))
_UNIFORM = register(OpKind("RandomUniform", _random_spec, _uniform, GradientRule.CUT))


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Returns a tensor with elements set to 0 at random, and the others scaled up.

    Args:
        t: the tensor.
        seed_tensor: the seed, uint32 of the shape `(2,)`. It decides, and nothing else does.
        p: the probability that an element is set to 0.

    Raises:
        ValueError: If the seed has another shape or type.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    return shaped_dropout(t, seed_tensor, t.shape, p)


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    """Returns a tensor with whole parts set to 0 at random, and the others scaled up.

    Args:
        t: the tensor.
        seed_tensor: the seed, uint32 of the shape `(2,)`.
        shape: the shape of the mask, which is broadcast.
        ratio: the probability that a part is set to 0.

    Raises:
        ValueError: If the seed has another shape or type.
        popart.popart_exception: If the mask cannot be broadcast to the tensor.
    """
    return building.add(
        _DROPOUT, t, check_seed(seed_tensor), shape=tuple(shape), ratio=float(ratio)
    )


def random_normal(
    seed_tensor: Tensor,
    shape: Iterable[int],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: dtypes.DTypeLike = dtypes.float32,
) -> Tensor:
    """Returns numbers with a normal distribution.

    Args:
        seed_tensor: the seed, uint32 of the shape `(2,)`. Equal seeds give equal numbers.
        shape: shape of the result.
        mean: their mean.
        std: their standard deviation.
        dtype: their type.

    Raises:
        ValueError: If the seed has another shape or type.
    """
    spec = TensorSpec(tuple(shape), dtypes.of_device(dtype))
    return building.add(_NORMAL, check_seed(seed_tensor), spec=spec, mean=mean, std=std)


def random_uniform(
    seed_tensor: Tensor,
    shape: Iterable[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: dtypes.DTypeLike = dtypes.float32,
) -> Tensor:
    """Returns numbers that are equally likely between two.

    Args:
        seed_tensor: the seed, uint32 of the shape `(2,)`. Equal seeds give equal numbers.
        shape: shape of the result.
        low: the smallest.
        high: the upper bound, excluded.
        dtype: their type; integers are possible.

    Raises:
        ValueError: If the seed has another shape or type.
    """
    spec = TensorSpec(tuple(shape), dtypes.of_device(dtype))
    return building.add(_UNIFORM, check_seed(seed_tensor), spec=spec, low=low, high=high)
