"""Pipelines train as plain gradient accumulation does, with any schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import gradient_accumulation, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.optimizers import CrossReplicaOptimizer
from tests.support.models import pipelines

Schedule = pipelining_ops.PipelineSchedule
Recomputation = pipelining_ops.RecomputationMode
tf1 = tf.compat.v1


@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize("opt", ["sgd", "momentum", "adam", "rmsprop"])
def test_weights_equal_plain_gradient_accumulation(schedule: Schedule, opt: str) -> None:
    got = pipelines.run(
        pipelines.stages(2),
        pipelines.data(24),
        ipus=2,
        launches=2,
        opt=opt,
        gradient_accumulation_count=4,
        repeat_count=3,
        pipeline_schedule=schedule,
    )
    want = pipelines.expected(4, 6, opt)
    pipelines.assert_same_weights(got, want)
    assert len(got.outfeed) == 1, "training enqueues a list, also of one"
    np.testing.assert_allclose(got.outfeed[0], want.outfeed, rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("schedule", list(Schedule))
def test_replicated_pipelines_exchange_gradients_once(replicas: int, schedule: Schedule) -> None:
    got = pipelines.run(
        pipelines.stages(4),
        pipelines.data(16 * replicas),
        ipus=4 * replicas,
        wrap=CrossReplicaOptimizer,
        opt="momentum",
        gradient_accumulation_count=8,
        repeat_count=2,
        pipeline_schedule=schedule,
    )
    pipelines.assert_same_weights(got, pipelines.expected(8, 2, "momentum", replicas))
    (executable,) = cache.executables()
    assert executable.replicas == replicas
    assert executable.ipus_used == 4
    sums = [op for op in executable.ops if op.type == "IpuCrossReplicaSum"]
    assert len(sums) == (len(got.weights) if replicas > 1 else 0)


@pytest.mark.parametrize(
    ("method", "scale"), [("sum", 1), ("Mean", 1 / 4), ("RUNNING_MEAN", 1 / 4)]
)
def test_reduction_methods_scale_the_update(method: str, scale: float) -> None:
    got = pipelines.run(
        pipelines.stages(2),
        pipelines.data(8),
        gradient_accumulation_count=4,
        repeat_count=2,
        reduction_method=method,
    )
    pipelines.assert_same_weights(got, pipelines.expected(4, 2, scale=scale))


def test_batch_serialization_covers_more_mini_batches() -> None:
    got = pipelines.run(
        pipelines.stages(2),
        pipelines.data(24),
        ipus=1,
        gradient_accumulation_count=4,
        batch_serialization_iterations=3,
        repeat_count=2,
    )
    pipelines.assert_same_weights(got, pipelines.expected(12, 2))
    (executable,) = cache.executables()
    assert executable.ipus_used == 1


@pytest.mark.parametrize("mode", list(Recomputation))
def test_recomputation_changes_no_result_even_of_random_ops(mode: Recomputation) -> None:
    def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
        hidden = tf.nn.dropout(pipelines.layer(pipelines.layer(x, 0), 1), rate=0.5)
        return pipelining_ops.recomputation_checkpoint((hidden, labels))

    def second(x: tf.Tensor, labels: tf.Tensor) -> Any:
        return pipelines.loss_of(pipelines.layer(pipelines.layer(x, 2), 3), labels)

    from tensorflow_ipu.api import utils

    outcomes = []
    for recompute in (False, True):
        pipelines.configure(2, allow_recompute=recompute)
        utils.reset_ipu_seed(5)
        outcomes.append(
            pipelines.run(
                [first, second],
                pipelines.data(8),
                ipus=2,
                gradient_accumulation_count=4,
                repeat_count=2,
                recomputation_mode=mode,
            )
        )
    pipelines.assert_same_weights(outcomes[0], outcomes[1], tolerance=0)


def test_gradients_reach_the_optimizer_in_the_asked_type() -> None:
    seen = []

    class Casting(tf1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            seen.extend(gradient.dtype for gradient, _ in pairs)
            cast = [(tf.cast(gradient, variable.dtype), variable) for gradient, variable in pairs]
            return super().apply_gradients(cast, *args, **kwargs)

    types = {"w0": tf.float16, "w1": tf.float32, "w2": tf.float16, "w3": tf.float32}
    pipelines.run(
        pipelines.stages(2),
        pipelines.data(4),
        wrap=lambda _: Casting(0.1),
        gradient_accumulation_count=4,
        gradient_accumulation_dtype=lambda variable: types[variable.op.name],
    )
    assert seen == list(types.values())


def test_variables_that_no_stage_uses_stay() -> None:
    def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
        tf1.get_variable("unused", initializer=3.0, use_resource=True)
        return pipelines.layer(pipelines.layer(x, 0), 1), labels

    got = pipelines.run(
        [first, pipelines.stages(2)[1]], pipelines.data(4), gradient_accumulation_count=4
    )
    assert got.weights.pop("unused") == 3.0
    pipelines.assert_same_weights(got, pipelines.expected(4, 1))


@pytest.mark.parametrize("count", [1, 4])
def test_variables_independent_of_loss_have_zero_gradient(count: int) -> None:
    seen: dict[str, Any] = {}

    class Seeing(tf1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            seen.update({variable.op.name: gradient for gradient, variable in pairs})
            # One that moves all weights shows that the update runs.
            moved = [(gradient + 1.0, variable) for gradient, variable in pairs]
            return super().apply_gradients(moved, *args, **kwargs)

    def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
        other = tf1.get_variable("other", initializer=[3.0, 4.0], use_resource=True)
        return x, tf.reduce_sum(other) * tf.cast(labels, tf.float32)

    def last(x: tf.Tensor, scaled: tf.Tensor) -> Any:
        return scaled, tf.reduce_sum(x)

    got = pipelines.run(
        [first, last],
        pipelines.data(4),
        wrap=lambda _: Seeing(0.5),
        gradient_accumulation_count=count,
        gradient_accumulation_dtype=tf.float32,
        pipeline_schedule=Schedule.Sequential,
    )
    assert seen["other"].dtype == tf.float32
    np.testing.assert_array_equal(got.weights["other"], [2.5, 3.5])
    labels = pipelines.data(4)[1].reshape(4, 2)[:count]
    np.testing.assert_array_equal(got.outfeed[0], 7 * labels)


def test_momentum_goes_on_without_a_gradient() -> None:
    def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
        other = tf1.get_variable("other", initializer=3.0, use_resource=True)
        return pipelines.layer(pipelines.layer(x, 0), 1), labels, other

    def last(x: tf.Tensor, labels: tf.Tensor, other: tf.Tensor) -> Any:
        loss = pipelines.stages(2)[1](x, labels)
        return other, loss

    got = pipelines.run(
        [first, last],
        pipelines.data(8),
        opt="momentum",
        outfeed_mask=[True, False],
        gradient_accumulation_count=4,
        repeat_count=2,
    )
    assert got.weights.pop("other") == 3.0
    pipelines.assert_same_weights(got, pipelines.expected(4, 2, "momentum"))


class TestStagesOnAllIpus:
    """`device_mapping` with -1."""

    @pytest.mark.parametrize(
        ("method", "replicas"), [("sum", 1), ("mean", 1), ("running_mean", 1), ("sum", 2)]
    )
    def test_trains_like_one_ipu(self, method: str, replicas: int) -> None:
        def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
            with scopes.ipu_shard(0):
                x = pipelines.layer(x, 0)
            with scopes.ipu_shard(1):
                x = pipelines.layer(x, 1)
            return x, labels

        def second(x: tf.Tensor, labels: tf.Tensor) -> Any:
            return pipelines.layer(x, 2), labels

        def third(x: tf.Tensor, labels: tf.Tensor) -> Any:
            return pipelines.loss_of(pipelines.layer(x, 3), labels)

        got = pipelines.run(
            [first, second, third],
            pipelines.data(12 * replicas),
            ipus=2 * replicas,
            wrap=CrossReplicaOptimizer,
            device_mapping=[-1, 0, 1],
            gradient_accumulation_count=6,
            repeat_count=2,
            reduction_method=method,
        )
        scale = 1.0 if method == "sum" else 1 / 6
        want = pipelines.expected(6, 2, replicas=replicas, scale=scale)
        pipelines.assert_same_weights(got, want)
        (executable,) = cache.executables()
        assert executable.ipus_used == 2
        assert executable.pipeline is not None
        description = executable.pipeline.schedule.description
        assert description.device_mapping == ((0, 1), 0, 1)
        places = {
            op.ipu
            for op in executable.ops
            if op.type == "MatMul" and op.stage == 0 and not op.phase
        }
        assert places == {0, 1}
        assert executable.plan.timeline.schedule is not None

    def test_ops_that_name_no_ipu(self) -> None:
        got = pipelines.run(
            pipelines.stages(2),
            pipelines.data(4),
            device_mapping=[-1, -1],
            ipus=1,
            gradient_accumulation_count=4,
        )
        pipelines.assert_same_weights(got, pipelines.expected(4, 1))
        (executable,) = cache.executables()
        assert executable.ipus_used == 1

    def test_shares_a_variable_with_one_ipu(self) -> None:
        def stage(x: tf.Tensor, labels: tf.Tensor) -> Any:
            with tf1.variable_scope("shared", reuse=tf1.AUTO_REUSE):
                w = tf1.get_variable("w", initializer=2.0, use_resource=True)
            return x * w, labels

        def last(x: tf.Tensor, labels: tf.Tensor) -> Any:
            return tf.reduce_sum(stage(x, labels)[0])

        got = pipelines.run(
            [stage, last],
            pipelines.data(4),
            device_mapping=[-1, 1],
            gradient_accumulation_count=4,
        )
        want = 2.0 - 0.1 * 2 * 2.0 * pipelines.data(4)[0].sum()
        np.testing.assert_allclose(got.weights["shared/w"], want, rtol=1e-5)


def test_global_step_counts_executions() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        outcome: list[Any] = []

        def optimizer_function(loss: tf.Tensor) -> pipelining_ops.OptimizerFunctionOutput:
            return pipelining_ops.OptimizerFunctionOutput(
                tf1.train.GradientDescentOptimizer(0.1),
                loss,
                compute_gradients_kwargs={"colocate_gradients_with_ops": True},
                apply_gradients_kwargs={"global_step": outcome[0]},
            )

        from tensorflow_ipu.api import ipu_compiler, scopes

        dataset = tf.data.Dataset.from_tensor_slices(pipelines.data(8)).batch(2, True)
        infeed = IPUInfeedQueue(dataset)
        with scopes.ipu_scope("/device:IPU:0"):
            step = tf1.get_variable("step", initializer=0, trainable=False, use_resource=True)
            outcome.append(step)
            compiled = ipu_compiler.compile(
                lambda: pipelining_ops.pipeline(
                    pipelines.stages(2),
                    4,
                    repeat_count=2,
                    infeed_queue=infeed,
                    optimizer_function=optimizer_function,
                    outfeed_mask=[True],
                )
            )
        pipelines.configure(2)
        session.run([tf1.global_variables_initializer(), infeed.initializer])
        session.run(compiled)
        assert session.run(step) == 2


def test_stages_may_share_an_ipu_and_a_variable() -> None:
    def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
        with tf1.variable_scope("shared", reuse=tf1.AUTO_REUSE):
            w = tf1.get_variable("w", initializer=np.eye(5, dtype=np.float32), use_resource=True)
        return tf.tanh(x @ w), labels

    def last(x: tf.Tensor, labels: tf.Tensor) -> Any:
        return tf.reduce_sum(x**2) + 0.0 * tf.cast(labels[0], tf.float32)

    got = pipelines.run(
        [first, first, last],
        pipelines.data(6),
        device_mapping=[1, 1, 0],
        gradient_accumulation_count=6,
    )
    w = tf.Variable(np.eye(5, dtype=np.float32))
    with tf.GradientTape() as tape:
        x = tf.tanh(tf.tanh(pipelines.data(6)[0] @ w) @ w)
        loss = tf.reduce_sum(x**2)
    want = w - 0.1 * tape.gradient(loss, w)
    np.testing.assert_allclose(got.weights["shared/w"], want, rtol=1e-4)


def test_parallel_stages_share_inputs_and_join_outputs() -> None:
    def source(x: tf.Tensor, _: tf.Tensor) -> Any:
        return x, 2.0 * x

    def add(a: tf.Tensor, b: tf.Tensor) -> Any:
        return a + b

    def subtract(a: tf.Tensor, b: tf.Tensor) -> Any:
        return a - b

    def last(total: tf.Tensor, difference: tf.Tensor) -> Any:
        return total, difference

    got = pipelines.run(
        [source, [add, subtract], last],
        pipelines.data(6),
        ipus=4,
        opt=None,
        gradient_accumulation_count=6,
        device_mapping=[0, [1, 2], 3],
    )
    x = pipelines.data(6)[0].reshape(6, 2, 5)
    np.testing.assert_allclose(got.outfeed[0], 3 * x, rtol=1e-6)
    np.testing.assert_allclose(got.outfeed[1], -x, rtol=1e-6)
    (executable,) = cache.executables()
    ipus = {op.type: op.ipu for op in executable.ops if op.type in ("AddV2", "Sub")}
    assert ipus["Sub"] == 2
    assert executable.ipus_used == 4


def test_stage_passes_and_update_are_on_its_ipu() -> None:
    pipelines.run(
        pipelines.stages(4),
        pipelines.data(8),
        ipus=4,
        opt="adam",
        gradient_accumulation_count=8,
        device_mapping=[3, 1, 0, 2],
    )
    (executable,) = cache.executables()
    place = {0: 3, 1: 1, 2: 0, 3: 2}
    matmuls = [op for op in executable.ops if op.type == "MatMul"]
    assert {(op.stage, op.phase) for op in matmuls} == {
        (stage, phase) for stage in range(4) for phase in ("", "backward")
    }
    for op in matmuls:
        assert op.ipu == place[op.stage], op
    updates = [op for op in executable.ops if op.type == "ResourceApplyAdam"]
    assert sorted(op.ipu for op in updates) == [0, 1, 2, 3]
    assert {op.phase for op in updates} == {"update"}


def test_trains_in_strategy_with_keras_optimizer_and_tape() -> None:
    pipelines.configure(2)
    strategy = ipu_strategy.IPUStrategy()
    x, y = pipelines.data(8)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(2, drop_remainder=True)
    with strategy.scope():
        infeed = IPUInfeedQueue(dataset)
        outfeed = IPUOutfeedQueue()
        weights = [tf.Variable(pipelines.initial(index)) for index in range(4)]
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)

        def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
            return pipelines.layer(pipelines.layer(x, 0, weights[0]), 1, weights[1]), labels

        def second(x: tf.Tensor, labels: tf.Tensor) -> Any:
            x = pipelines.layer(pipelines.layer(x, 2, weights[2]), 3, weights[3])
            return pipelines.loss_of(x, labels)

        def optimizer_function(loss: tf.Tensor) -> pipelining_ops.OptimizerFunctionOutput:
            return pipelining_ops.OptimizerFunctionOutput(optimizer, loss, variables=weights)

        @tf.function(jit_compile=True)
        def train() -> None:
            pipelining_ops.pipeline(
                [first, second],
                4,
                repeat_count=2,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=optimizer_function,
                outfeed_loss=True,
            )

        _ = infeed.initializer
        strategy.run(train)
    want = pipelines.expected(4, 2, "momentum")
    for index, weight in enumerate(weights):
        np.testing.assert_allclose(weight.numpy(), want.weights[f"w{index}"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outfeed.dequeue(), want.outfeed, rtol=1e-5)


def test_the_executable_has_the_schedule() -> None:
    pipelines.run(pipelines.stages(2), pipelines.data(8), ipus=2, gradient_accumulation_count=8)
    (executable,) = cache.executables()
    plan = executable.pipeline
    assert plan is not None
    assert plan.schedule.description.count == 8
    assert plan.stages == (("stage",), ("stage",))
    assert "stage 1: stage on IPU 1" in str(executable)


def test_methods_are_parsed_by_name() -> None:
    method = gradient_accumulation.GradientAccumulationReductionMethod
    assert method.parse("running_mean") is method.RUNNING_MEAN
    with pytest.raises(ValueError, match="as one of GradientAccumulationReductionMethod"):
        method.parse("median")
