"""Copies of a variable: held once where they are equal, and apart again when they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler import observers
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import replication_ops
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
from tests.support.programs import replicas

REPLICAS = 8
SIZE = 50_000
BYTES = 4 * SIZE
SWITCH = "TENSORFLOW_IPU_REPLICAS_SHARE"
AT_ONCE = "TENSORFLOW_IPU_REPLICAS_AT_ONCE"
# Group of each replica by its index: neighbors, replicas at a distance, all, and each alone.
GROUPS = {
    "neighbors": lambda index: index // 4,
    "distant": lambda index: index % 2,
    "all": lambda index: index // REPLICAS,
    "alone": lambda index: index,
}


@pytest.fixture
def executables() -> Iterator[list[Executable]]:
    """The programs that are compiled in a test."""
    made: list[Executable] = []
    observers.observe(made.append)
    yield made
    observers.forget(made.append)


def _run(update: Callable[[tf.Variable, tf.Tensor], Any], launches: int = 1) -> list[np.ndarray]:
    """Updates a variable on all replicas; returns its values by replica after each launch."""
    replicas.configure(REPLICAS)
    strategy, outfeed = ipu_strategy.IPUStrategy(), IPUOutfeedQueue()
    with strategy.scope():
        variable = tf.Variable(tf.range(SIZE, dtype=tf.float32))

        @tf.function(jit_compile=True)
        def program() -> None:
            update(variable, replication_ops.replication_index())
            outfeed.enqueue(variable.read_value())

        for _ in range(launches):
            strategy.run(program)
    return list(np.asarray(outfeed.dequeue()))


@pytest.mark.parametrize("at_once", [1, 2, REPLICAS + 1])
@pytest.mark.parametrize("groups", GROUPS)
def test_equal_copies_are_held_once(
    groups: str, at_once: int, executables: list[Executable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AT_ONCE, str(at_once))
    group = GROUPS[groups]

    def update(variable: tf.Variable, index: tf.Tensor) -> None:
        variable.assign_add(tf.fill([SIZE], tf.cast(group(index), tf.float32)))

    found = _run(update, launches=3)
    numbers = group(np.arange(REPLICAS))
    for launch, values in enumerate(found, 1):
        expected = np.arange(SIZE, dtype=np.float32) + launch * numbers[:, None]
        np.testing.assert_array_equal(values, expected)
    assert executables[-1].uniform[4] == len(set(numbers)) * BYTES


def test_switch_keeps_copies_apart(
    executables: list[Executable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    _run(lambda variable, _: variable.assign_add(tf.ones([SIZE])))
    assert executables[-1].uniform[4] == REPLICAS * BYTES


@pytest.mark.parametrize("at_once", [1, 2])
def test_shared_copies_part_again(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each iteration has a sum, where replicas wait and share values that are equal by then."""
    monkeypatch.setenv(AT_ONCE, str(at_once))

    def update(variable: tf.Variable, index: tf.Tensor) -> None:
        def body(step: tf.Tensor) -> tf.Tensor:
            # Equal, in two groups, all different, equal again but for one element.
            number = tf.stack([index // 8, index // 4, index, index // 8])[step]
            variable.assign(tf.fill([SIZE], tf.cast(number, tf.float32)))
            mean = cross_replica_sum(variable.read_value()) / REPLICAS
            variable.assign_sub(mean)
            row = tf.IndexedSlices(tf.ones([1]), tf.where(tf.equal(step, 3), index, 0)[None])
            variable.assign_add(tf.scatter_nd(row.indices[:, None], row.values, [SIZE]))
            cross_replica_sum(variable.read_value()[0])
            return step + 1

        loops.repeat(4, body, [0])

    (found,) = _run(update)
    expected = np.zeros([REPLICAS, SIZE], np.float32)
    expected[np.arange(REPLICAS), np.arange(REPLICAS)] = 1
    np.testing.assert_array_equal(found, expected)
