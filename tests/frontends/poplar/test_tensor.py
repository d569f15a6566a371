"""Views of tensors, against NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np


def _operation(rng: random.Random, array: np.ndarray) -> tuple[str, np.ndarray]:
    """Returns a line for `views.cpp` and its result for an array."""
    d = rng.randrange(array.ndim)
    size = array.shape[d]
    kind = rng.choice(
        "slice index reshape shuffle broadcast upsample subsample reverse expand roll".split()
    )
    if kind == "slice":
        begin, end = sorted((rng.randint(0, size), rng.randint(0, size)))
        end += begin == end and end < size
        begin -= begin == end
        return f"slice {begin} {end} {d}", np.take(array, range(begin, end), axis=d)
    if kind == "index" and array.ndim > 1:
        i = rng.randrange(array.shape[0])
        return f"index {i}", array[i]
    if kind == "reshape":
        divisors = [n for n in range(1, array.size + 1) if array.size % n == 0]
        first = rng.choice(divisors)
        return f"reshape {first} {array.size // first}", array.reshape(first, -1)
    if kind == "shuffle":
        order = rng.sample(range(array.ndim), array.ndim)
        return f"shuffle {' '.join(map(str, order))}", array.transpose(order)
    if kind == "broadcast" and array.size < 500:
        return f"broadcast 3 {d}", np.concatenate([array] * 3, axis=d)
    if kind == "upsample" and array.size < 500:
        return f"upsample 2 {d}", np.repeat(array, 2, axis=d)
    if kind == "subsample":
        return f"subsample 2 {d}", np.take(array, range(0, size, 2), axis=d)
    if kind == "expand" and array.ndim < 5:
        return f"expand {d}", np.expand_dims(array, d)
    if kind == "roll":
        to = rng.randrange(array.ndim)
        return f"roll {d} {to}", np.moveaxis(array, d, to)
    return f"reverse {d}", np.flip(array, d)


def test_chains_of_operations_equal_numpy(run_poplar: Callable[..., str]) -> None:
    """Random chains, also on tensors that several others were joined to."""
    rng = random.Random(0)
    lines, expected, count = [], [], 0

    def tensor(shape: tuple[int, ...]) -> np.ndarray:
        nonlocal count
        lines.append(f"tensor {' '.join(map(str, shape))}")
        array = np.arange(count, count + np.prod(shape)).reshape(shape)
        count += array.size
        return array

    for _ in range(150):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 4)))
        array = tensor(shape)
        if rng.random() < 0.5:
            d = rng.randrange(len(shape))
            other = tensor((*shape[:d], rng.randint(1, 3), *shape[d + 1 :]))
            lines.append(f"concat {d}")
            array = np.concatenate([array, other], axis=d)
        for _ in range(rng.randint(1, 6)):
            line, array = _operation(rng, array)
            lines.append(line)
        lines.append("print")
        expected.append(array)
    output = run_poplar("views.cpp", text="\n".join(lines)).splitlines()
    assert len(output) == len(expected)
    for line, array in zip(output, expected):
        shape_text, values = line.split(":")
        assert tuple(map(int, shape_text.split())) == array.shape
        assert list(map(int, values.split())) == array.ravel().tolist()
