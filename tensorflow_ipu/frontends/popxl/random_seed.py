"""Seeds of random numbers, made on the host: the module `popxl.random_seed`."""

from __future__ import annotations

import numpy as np

__all__ = ["MAX_UINT64", "create_seeds", "two_uint32_to_uint64", "uint64_to_two_uint32"]

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
        offset: what is added to that, to get others later.
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
