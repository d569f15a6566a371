"""Sessions that are closed at once after their infeed has failed, while ops still refer to it."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.runtime import native
from tests.support.programs import replicas

tf1 = tf.compat.v1
# One session for this many iterations of `--stress-iterations`, as it takes as long.
ITERATIONS_OF_A_SESSION = 80


def _run_and_close(count: int) -> None:
    """Runs a program whose dataset fails at the second element, and closes the session at once.

    Args:
        count: number of replicas, each of which reads elements.
    """
    go_on: queue.Queue[None] = queue.Queue()

    def elements() -> Iterator[np.ndarray]:
        for _ in range(count):
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


@pytest.mark.parametrize("count", [1, 2, 4])
def test_failed_infeeds_are_deleted_with_their_session(
    request: pytest.FixtureRequest, count: int
) -> None:
    replicas.configure(count)
    before = native.counts().infeeds
    for _ in range(request.config.getoption("--stress-iterations") // ITERATIONS_OF_A_SESSION):
        _run_and_close(count)
        assert native.counts().infeeds == before
