"""Sessions close while an infeed gives up: its dataset goes before what the dataset uses."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tests.support.programs import replicas

tf1 = tf.compat.v1
# A session takes as long as this many steps of a kernel.
STEPS_OF_A_SESSION = 40


def _close_while_waiting() -> None:
    """Closes a session right after its program was told that the dataset has failed."""
    go_on: queue.Queue[None] = queue.Queue()

    def elements() -> Iterator[np.ndarray]:
        yield np.ones(4, np.float32)
        go_on.get()
        raise ValueError("the data are broken")

    spec = tf.TensorSpec([4], tf.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        infeed = IPUInfeedQueue(tf.data.Dataset.from_generator(elements, output_signature=spec))
        body = lambda total, x: total + x  # noqa: E731
        with scopes.ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(lambda: loops.repeat(9, body, [tf.zeros(4)], infeed))
        session.run(infeed.initializer)
        go_on.put(None)
        with pytest.raises(tf.errors.InvalidArgumentError, match="the data are broken"):
            session.run(result)


def test_sessions_close_while_their_infeeds_fail(request: pytest.FixtureRequest) -> None:
    replicas.configure(1)
    for _ in range(int(request.config.getoption("--stress-iterations")) // STEPS_OF_A_SESSION):
        _close_while_waiting()
