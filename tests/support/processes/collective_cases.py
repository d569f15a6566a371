"""Collectives of all kinds, types and groups in one program, and their expected NumPy results.

As a script it is an instance, and reports what its replicas computed:

    python -m tests.support.processes.collective_cases 4 8

does so with 4 replicas in all instances, then with 8.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.ops.all_to_all_op import all_gather, all_to_all
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_mean, cross_replica_sum
from tensorflow_ipu.ops.reduce_scatter_op import reduce_scatter
from tensorflow_ipu.runtime import native
from tests.support.processes import instances
from tests.support.programs import replicas

# So large that 3 or more processes share the work of a sum in float32, and that 2 do in float16. No
# multiples of anything.
LARGE = (70_001,)
LARGER = 2_200_003
ITERATIONS = 20


class Case(NamedTuple):
    """A collective of groups of replicas.

    Attributes:
        name: its own.
        size: how many replicas are in a group.
        values: what the replicas give, [replicas, ...].
        compute: makes the result of a replica from its tensor.
        expect: makes the results of a group from what it gives, [size, ...].
    """

    name: str
    size: int
    values: np.ndarray
    compute: Callable[[tf.Tensor], tf.Tensor]
    expect: Callable[[np.ndarray], np.ndarray]

    def expected(self) -> np.ndarray:
        """Returns the expected NumPy result, [replicas, ...]."""
        groups = replicas.groups(len(self.values), self.size)
        return np.concatenate([self.expect(self.values[group]) for group in groups])


def cases(total: int) -> list[Case]:
    """Returns the cases for N replicas of all instances."""
    found = []
    for size in (size for size in range(1, total + 1) if total % size == 0):
        for make in (_sums, _moves, _scatters):
            found += [case._replace(name=f"{case.name}_of_{size}") for case in make(total, size)]
    return [*found, *_of_all(total)]


def _sums(total: int, size: int) -> Iterator[Case]:
    dtypes = ("float32", "float16", "bfloat16", "int32", "uint8") if size == total else ("float16",)
    for shape, dtype in [*itertools.product([(), (7,)], dtypes), (LARGE, "float32")]:
        x = replicas.rows(total, shape, dtype)
        name = f"{dtype}_{math.prod(shape)}"
        yield Case(
            f"sum_{name}",
            size,
            x,
            functools.partial(cross_replica_sum, replica_group_size=size),
            _sum,
        )
    for shape, dtype in [(LARGE, "float16"), ((3,), "float32"), ((3,), "int32")]:
        x = replicas.rows(total, shape, dtype)
        compute = functools.partial(cross_replica_mean, replica_group_size=size)
        yield Case(f"mean_{dtype}", size, x, compute, _mean)


def _in_order(x: np.ndarray) -> np.ndarray:
    """Returns the sum of rows, added one after the other, of 16-bit floats in float32."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return functools.reduce(np.add, wide)


def _averaged(x: np.ndarray) -> np.ndarray:
    """Returns the mean of rows, rounded towards zero for integers."""
    total = _in_order(x)
    return np.trunc(total / len(x)) if x.dtype == np.int32 else total / np.float32(len(x))


def _sum(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(_in_order(x).astype(x.dtype), x.shape)


def _mean(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(_averaged(x).astype(x.dtype), x.shape)


def _moves(total: int, size: int) -> Iterator[Case]:
    for dtype in ("float32", "bool"):
        x = replicas.rows(total, (2, 3), dtype)
        yield Case(
            f"all_gather_{dtype}",
            size,
            x,
            functools.partial(all_gather, replication_factor=size),
            lambda rows: np.broadcast_to(rows, (len(rows), *rows.shape)),
        )


def _exchanged(rows: np.ndarray, split: int, concat: int) -> np.ndarray:
    parts = [np.split(row, len(rows), axis=split) for row in rows]
    return np.stack(
        [np.concatenate([part[to] for part in parts], axis=concat) for to in range(len(rows))]
    )


_SCATTERS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "ADD": ("float32", _in_order),
    "MEAN": ("float16", _averaged),
    "MAX": ("int32", lambda x: x.max(0)),
    "SQUARE_ADD": ("float32", lambda x: _in_order(x * x)),
    "LOGICAL_OR": ("bool", lambda x: x.any(0)),
}


def _scatters(total: int, size: int) -> Iterator[Case]:
    # In groups of 4 and more, some replicas get a part of 2 elements, and some nothing.
    ops, lengths = ([*_SCATTERS, "LOCAL"], [2, 11, 4096]) if size == total else (["ADD"], [2, 11])
    for op, length in itertools.product(ops, lengths):
        dtype, reduction = _SCATTERS.get(op, ("float32", None))
        yield Case(
            f"scatter_{op}_{length}",
            size,
            replicas.rows(total, (length,), dtype),
            functools.partial(reduce_scatter, replication_factor=size, op=f"COLLECTIVE_OP_{op}"),
            functools.partial(_scattered, reduction),
        )


def _scattered(reduction: Callable[[np.ndarray], np.ndarray] | None, x: np.ndarray) -> np.ndarray:
    whole = x if reduction is None else np.broadcast_to(reduction(x).astype(x.dtype), x.shape)
    length = math.ceil(x.shape[1] / len(x))
    padded = np.pad(whole, ((0, 0), (0, length * len(x) - x.shape[1])))
    return np.stack([padded[r, r * length : (r + 1) * length] for r in range(len(x))])


def _of_all(total: int) -> Iterator[Case]:
    yield Case(
        "empty",
        total,
        replicas.rows(total, (0, 2)),
        lambda tensor: tf.pad(cross_replica_sum(tensor), [[0, 1], [0, 0]]),
        lambda rows: np.zeros((len(rows), 1, 2), np.float32),
    )
    for split, concat in itertools.product(range(3), repeat=2):
        x = replicas.rows(total, (total, 2 * total, 3 * total), "int32")
        yield Case(
            f"all_to_all_{split}{concat}",
            total,
            x,
            functools.partial(
                all_to_all, split_dimension=split, concat_dimension=concat, replication_factor=total
            ),
            functools.partial(_exchanged, split=split, concat=concat),
        )
    x = replicas.rows(total, (5,), "float32")
    yield Case(
        "broadcast",
        total,
        x,
        tf.autograph.experimental.do_not_convert(
            lambda tensor: native.ops().ipu_replica_broadcast(tensor)
        ),
        lambda rows: np.broadcast_to(rows[0], rows.shape),
    )
    scales = replicas.rows(total, (1,), "float16")
    numbers = (np.arange(LARGER) % 251).astype(np.float16)
    yield Case(
        "larger",
        total,
        scales,
        lambda scale: cross_replica_mean(tf.constant(numbers) * scale)[::-997],
        lambda scales: _mean(numbers * scales)[:, ::-997],
    )
    yield Case(
        "loop",
        total,
        x,
        lambda tensor: loops.repeat(
            ITERATIONS, lambda t: 0.125 * cross_replica_sum(t) + tensor, [tf.zeros_like(tensor)]
        ),
        _looped,
    )


def _looped(rows: np.ndarray) -> np.ndarray:
    state = np.zeros_like(rows)
    for _ in range(ITERATIONS):
        state = np.float32(0.125) * _in_order(state) + rows
    return state


def computed(total: int) -> dict[str, np.ndarray]:
    """Runs all cases in one program on the configured device.

    Args:
        total: replicas of all instances.

    Returns:
        For each case what the replicas of this instance computed, [replicas, ...].
    """

    def program() -> dict[str, tf.Tensor]:
        return {
            case.name: _exported(case.compute(replicas.own_row(case.values)))
            for case in cases(total)
        }

    results = replicas.run_eagerly(program)
    return {name: np.asarray(value) for name, value in results.items()}


def _exported(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor in a type that an outfeed takes, with all its bits."""
    return tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor


def main() -> None:
    """Computes the cases as an instance, for each number of replicas in the command line."""
    me = instances.join()
    for total in map(int, sys.argv[1:]):
        instances.configure(dataclasses.replace(me, total_replicas=total))
        local = total // me.count
        results: dict[str, Any] = computed(total)
        instances.report(
            total=total, **{name: value.reshape(local, -1) for name, value in results.items()}
        )


if __name__ == "__main__":
    main()
