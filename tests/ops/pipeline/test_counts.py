"""Pipelines whose number of mini-batches is a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import internal_ops, pipelining_ops
from tensorflow_ipu.optimizers import CrossReplicaOptimizer
from tests.support.models import pipelines

Schedule = pipelining_ops.PipelineSchedule
tf1 = tf.compat.v1


def _fed(value: int) -> Any:
    """Returns a function that makes a tensor unknown before the program runs."""
    return lambda: tf1.placeholder_with_default(value, [])


@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize("count", [4, _fed(4)])
def test_a_fed_count_trains_as_a_known_one(count: Any, schedule: Schedule) -> None:
    got = pipelines.run(
        pipelines.stages(2),
        pipelines.data(8),
        opt="momentum",
        count=count,
        repeat_count=2,
        pipeline_schedule=schedule,
    )
    want = pipelines.expected(4, 2, "momentum")
    pipelines.assert_same_weights(got, want)
    np.testing.assert_allclose(got.outfeed[0], want.outfeed, rtol=1e-5)


@pytest.mark.parametrize("replicas", [2, 4])
def test_a_fed_count_trains_replicas(replicas: int) -> None:
    got = pipelines.run(
        pipelines.stages(2),
        pipelines.data(8 * replicas),
        ipus=2 * replicas,
        wrap=CrossReplicaOptimizer,
        count=_fed(4),
        repeat_count=2,
    )
    pipelines.assert_same_weights(got, pipelines.expected(4, 2, replicas=replicas))


@pytest.mark.parametrize("method", ["mean", "running_mean"])
def test_a_fed_count_divides_means(method: str) -> None:
    got = pipelines.run(
        pipelines.stages(2), pipelines.data(8), count=_fed(8), reduction_method=method
    )
    pipelines.assert_same_weights(got, pipelines.expected(8, 1, scale=1 / 8))


def test_a_fed_count_works_with_batch_serialization() -> None:
    got = pipelines.run(
        pipelines.stages(2),
        pipelines.data(12),
        ipus=1,
        count=_fed(3),
        batch_serialization_iterations=2,
        repeat_count=2,
    )
    pipelines.assert_same_weights(got, pipelines.expected(6, 2))


@pytest.mark.parametrize("schedule", list(Schedule))
def test_inference_with_other_numbers_of_the_same_program(schedule: Schedule) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        outfeed = IPUOutfeedQueue()
        count = tf1.placeholder(tf.int32, [])

        def first() -> Any:
            return internal_ops.get_current_iteration_counter()

        def model(count: tf.Tensor) -> Any:
            return pipelining_ops.pipeline(
                [first, lambda number: number * 10],
                count,
                repeat_count=2,
                outfeed_queue=outfeed,
                pipeline_schedule=schedule,
            )

        with scopes.ipu_scope("/device:IPU:0"):
            compiled = ipu_compiler.compile(model, [count])
        taken = outfeed.dequeue()
        pipelines.configure(2)
        for number in (2, 6):
            session.run(compiled, {count: number})
            np.testing.assert_array_equal(session.run(taken), [*range(0, number * 10, 10)] * 2)


def test_a_fed_count_works_in_a_strategy() -> None:
    pipelines.configure(2)
    strategy = ipu_strategy.IPUStrategy()
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program(count: tf.Tensor) -> None:
        pipelining_ops.pipeline(
            [lambda: tf.constant(2.0), lambda x: x + 1.0], count, outfeed_queue=outfeed
        )

    for number in (4, 2):
        strategy.run(program, [tf.constant(number)])
        np.testing.assert_array_equal(outfeed.dequeue(), [3.0] * number)


@pytest.mark.parametrize(("count", "planned"), [(12, 12), (_fed(12), 4)])
def test_plan_has_the_number_or_the_fewest_possible(count: Any, planned: int) -> None:
    pipelines.run(pipelines.stages(2), pipelines.data(12), count=count)
    (executable,) = cache.executables()
    assert executable.pipeline is not None
    assert executable.pipeline.schedule.description.count == planned
    assert executable.plan.timeline.cycles > 0


def test_a_known_number_has_to_suit_the_schedule() -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="must be a multiple of 4"):
        pipelines.run(pipelines.stages(2), pipelines.data(6), count=6)


@pytest.mark.parametrize("wrong", [tf.constant([4, 4]), tf.constant(4.5)])
def test_tensors_that_are_no_number(wrong: tf.Tensor) -> None:
    pipelines.configure(2)

    @tf.function(jit_compile=True)
    def program(count: tf.Tensor) -> None:
        pipelining_ops.pipeline([lambda: tf.constant(2.0), lambda x: None], count)

    with pytest.raises(ValueError, match="or a scalar tensor of the type int32"):
        ipu_strategy.IPUStrategy().run(program, [wrong])
