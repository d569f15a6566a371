"""Values that replicas share, and the ends with errors of programs that share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler import observers
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
from tests.support.programs import replicas

REPLICAS = 4
SIZE = 1000
SWITCH = "TENSORFLOW_IPU_REPLICAS_SHARE"

pytestmark = pytest.mark.usefixtures("ends_in_time")


def _index() -> tf.Tensor:
    return tf.cast(replication_ops.replication_index(), tf.float32)


def _fed(_: tf.Variable) -> tf.Tensor:
    return tf.random.uniform([SIZE])


def _shared_bytes(update: Callable[[tf.Variable], Any]) -> int:
    """Returns the bytes of a variable that replicas share when a program updates it, in a loop."""
    made: list[Executable] = []
    observers.observe(made.append)
    replicas.configure(REPLICAS)
    strategy = ipu_strategy.IPUStrategy()
    try:
        with strategy.scope():
            variable = tf.Variable(tf.zeros([SIZE]))

            @tf.function(jit_compile=True)
            def program() -> None:
                def body(count: tf.Tensor) -> tf.Tensor:
                    update(variable)
                    return count + 1

                loops.repeat(2, body, [0])

            strategy.run(program)
    finally:
        observers.forget(made.append)
    return made[-1].uniform[2]


def _if(predicate: Any) -> Callable[[tf.Variable], Any]:
    def update(variable: tf.Variable) -> Any:
        return tf.cond(
            predicate(variable),
            lambda: variable.assign_add(tf.ones([SIZE])).read_value(),
            lambda: variable.read_value(),
        )

    return update


@pytest.mark.parametrize(
    "update",
    [
        lambda v: v.assign_add(cross_replica_sum(_fed(v))),
        lambda v: v.assign(tf.tanh(v) + 1.0),
        lambda v: v.assign(cross_replica_ops.assume_equal_across_replicas(v + 1.0)),
        _if(lambda v: v[0] < 1.0),
    ],
)
def test_variables_with_equal_writes_are_shared(update: Callable[[tf.Variable], Any]) -> None:
    assert _shared_bytes(update) == 4 * SIZE


@pytest.mark.parametrize(
    "update",
    [
        lambda v: v.assign_add(_fed(v)),
        lambda v: v.assign_add(cross_replica_sum(_fed(v), 2)),
        lambda v: v.assign(v + _index()),
        lambda v: v.scatter_nd_update([[tf.cast(_index(), tf.int32)]], [1.0]),
        lambda v: v.assign(cross_replica_ops.assume_equal_across_replicas(v + _index())),
        _if(lambda v: _index() < 1.0),
    ],
)
def test_variables_with_other_writes_are_copies(update: Callable[[tf.Variable], Any]) -> None:
    assert _shared_bytes(update) == 0


def test_environment_switches_sharing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert _shared_bytes(lambda v: v.assign_add(cross_replica_sum(_fed(v)))) == 0
    monkeypatch.setenv(SWITCH, "perhaps")
    with pytest.raises(tf.errors.InvalidArgumentError, match=SWITCH):
        _shared_bytes(lambda v: v.assign_add(cross_replica_sum(_fed(v))))


@pytest.mark.parametrize("failing", [0, 1])
def test_error_of_one_replica_ends_all(failing: int) -> None:
    """The others wait for the value of a variable that is never written."""
    replicas.configure(REPLICAS)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        variable = tf.Variable(tf.zeros([2]))

        @tf.function(jit_compile=True)
        def program() -> tf.Tensor:
            index = replication_ops.replication_index()
            row = tf.where(tf.equal(index, failing), 7, 0)
            wrong = tf.gather(variable, row)
            with tf.control_dependencies([wrong]):
                variable.assign_add(tf.ones([2]))
            return tf.gather(variable, index % 2)

        with pytest.raises(tf.errors.InvalidArgumentError, match=r"= 7 is not in \[0, 2\)"):
            strategy.run(program)


def test_loop_without_collectives_ends_with_its_data() -> None:
    """Replicas that have read elements send their results, which need a value of replica 0."""
    replicas.configure(REPLICAS)
    strategy = ipu_strategy.IPUStrategy()
    data = tf.data.Dataset.range(3 * REPLICAS + 2, output_type=tf.int32)
    with strategy.scope():
        variable = tf.Variable(tf.zeros([SIZE]))
        infeed, outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def program() -> None:
            def body(x: tf.Tensor) -> Any:
                variable.assign_add(tf.ones([SIZE]))
                return outfeed.enqueue(
                    tf.reduce_max(tf.sqrt(variable * variable)) + tf.cast(x, tf.float32)
                )

            loops.repeat(10, body, [], infeed)

        infeed.initializer  # noqa: B018 - runs it
        with pytest.raises(tf.errors.OutOfRangeError):
            strategy.run(program)
    sent = np.asarray(outfeed.dequeue())
    expected = np.arange(1, 4)[:, None] + np.arange(3 * REPLICAS).reshape(3, REPLICAS)
    np.testing.assert_array_equal(sent[:3], expected)
