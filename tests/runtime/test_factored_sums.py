"""Sums over replicas of matrix products, to which replicas give the factors of their parts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tests.support.programs import replicas

REPLICAS = 4
SEED = 20
AT_ONCE = "TENSORFLOW_IPU_REPLICAS_AT_ONCE"

pytestmark = pytest.mark.usefixtures("ends_in_time")


class Case(NamedTuple):
    """A product of matrices of `rows` x `depth` and `depth` x `columns`."""

    rows: int
    columns: int
    depth: int
    transpose_a: bool
    transpose_b: bool


def _cases() -> list[Case]:
    """Returns shapes on both sides of all limits, and random ones."""
    edges = [
        (16, 16, 1),
        (17, 400, 3),
        (15, 300, 2),
        (300, 15, 2),
        (600, 601, 64),
        (1030, 1050, 128),
    ]
    edges += [(1100, 1100, 129), (64, 64, 8), (64, 64, 9), (1, 500, 4), (500, 1, 4)]
    random = np.random.default_rng(SEED)
    sizes = random.integers(16, 300, [19, 2])
    depths = random.integers(1, 17, 19)
    shapes = edges + [(int(m), int(n), int(k)) for (m, n), k in zip(sizes, depths)]
    # Keras's gradients transpose the first factor: each second one does here.
    flags = [(True, False), (False, False), (True, True), (False, True)]
    flags = [flags[0], flags[1], flags[0], flags[2], flags[0], flags[3]]
    return [Case(*shape, *flags[i % len(flags)]) for i, shape in enumerate(shapes)]


def _matrices(rows: int, columns: int, transposed: bool) -> np.ndarray:
    shape = (columns, rows) if transposed else (rows, columns)
    random = np.random.default_rng([SEED, *shape])
    values = random.standard_normal([REPLICAS, *shape]) * 10.0 ** random.integers(-3, 4, shape)
    values[random.random(values.shape) < 0.1] = -0.0
    return values.astype(np.float32)


def _factors(case: Case) -> tuple[np.ndarray, np.ndarray]:
    return (
        _matrices(case.rows, case.depth, case.transpose_a),
        _matrices(case.depth, case.columns, case.transpose_b),
    )


def _sum_in_order(case: Case, group: int, mean: bool) -> np.ndarray:
    """Returns the sum or mean over replica 0's group, of TensorFlow's products."""
    a, b = _factors(case)
    flags = case.transpose_a, case.transpose_b
    first, *others = (tf.matmul(a[r], b[r], *flags).numpy() for r in range(group))
    total = first
    for other in others:
        total = total + other
    return total / np.float32(group) if mean else total


def _sums(cases: list[Case], group: int, mean: bool) -> list[np.ndarray]:
    """Returns the sums that a program with REPLICAS replicas makes, of replica 0."""
    replicas.configure(REPLICAS)
    strategy = ipu_strategy.IPUStrategy()
    collective = (
        cross_replica_ops.cross_replica_mean if mean else cross_replica_ops.cross_replica_sum
    )

    @tf.function(jit_compile=True)
    def program(*factors: tf.Tensor) -> list[tf.Tensor]:
        index = replication_ops.replication_index()
        sums = []
        for case, a, b in zip(cases, factors[::2], factors[1::2]):
            product = tf.matmul(a[index], b[index], case.transpose_a, case.transpose_b)
            sums.append(collective(product, group))
        return sums

    with strategy.scope():
        factors = [tf.constant(factor) for case in cases for factor in _factors(case)]
        return [result.numpy() for result in strategy.run(program, factors)]


@pytest.mark.parametrize(
    ("at_once", "group", "mean"), [(1, 4, False), (2, 4, True), (4, 2, False), (5, 4, False)]
)
def test_sums_have_bits_of_made_products(
    at_once: int, group: int, mean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AT_ONCE, str(at_once))
    cases = _cases() if at_once == 1 else _cases()[::3]
    for case, result in zip(cases, _sums(cases, group, mean)):
        expected = _sum_in_order(case, group, mean)
        assert result.shape == expected.shape
        assert np.array_equal(result.view(np.uint32), expected.view(np.uint32)), case


@pytest.mark.parametrize(
    ("case", "is_made"),
    [(Case(64, 64, 8, True, False), False), (Case(64, 64, 9, True, False), True)],
)
def test_products_much_larger_than_factors_are_not_made(
    case: Case, is_made: bool, tmp_path: Path
) -> None:
    with tf.profiler.experimental.Profile(str(tmp_path)):
        _sums([case], REPLICAS, mean=False)
    (trace,) = tmp_path.rglob("*.xplane.pb")
    assert (b"SumOfProductStart" not in trace.read_bytes()) == is_made
