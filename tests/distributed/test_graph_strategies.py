"""The strategies for graph mode in one process, against plain TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.horovod.ipu_horovod_strategy import IPUHorovodStrategy
from tensorflow.python.ipu.horovod.ipu_multi_replica_strategy import IPUMultiReplicaStrategy
from tensorflow.python.ipu.ipu_multi_worker_strategy import (
    IPUMultiWorkerStrategy,
    IPUMultiWorkerStrategyV1,
)

from tests.support.models import estimator_models, keras_models, pipelines
from tests.support.programs import replicas

tf1 = tf.compat.v1


def resolver(**cluster):
    if not cluster:
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="worker", task_id=0
    )


STRATEGIES = {
    "IPUMultiWorkerStrategy": lambda: IPUMultiWorkerStrategy(resolver()),
    "IPUHorovodStrategy": IPUHorovodStrategy,
    "IPUMultiReplicaStrategy": IPUMultiReplicaStrategy,
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    yield STRATEGIES[request.param]()
    ipu.horovod.shutdown()


def test_a_strategy_of_one_worker_has_one_replica(strategy):
    assert strategy.num_replicas_in_sync == 1
    assert isinstance(strategy.update_config_proto(tf1.ConfigProto()), tf1.ConfigProto)
    assert float(strategy.reduce(tf.distribute.ReduceOp.SUM, tf.constant(2.0), axis=None)) == 2.0


def _trained_pipeline(strategy, count, executions):
    """Trains the model of `tests.support.models.pipelines` as a TensorFlow 1 program does."""
    with tf.Graph().as_default():
        x, labels = pipelines.data(count * executions)
        dataset = tf.data.Dataset.from_tensor_slices((x, labels))
        dataset = dataset.batch(pipelines.BATCH, drop_remainder=True)
        with strategy.scope():
            infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
            outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

            def optimizer_function(loss):
                optimizer = tf1.train.GradientDescentOptimizer(0.1)
                return ipu.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

            def model():
                return ipu.pipelining_ops.pipeline(
                    pipelines.stages(2),
                    gradient_accumulation_count=count,
                    infeed_queue=infeed,
                    outfeed_queue=outfeed,
                    optimizer_function=optimizer_function,
                )

            def compiled():
                with ipu.scopes.ipu_scope("/device:IPU:0"):
                    return ipu.ipu_compiler.compile(model, [])

            train = strategy.experimental_run_v2(compiled)
            ipu.utils.move_variable_initialization_to_cpu()
            variables = tf1.global_variables()
            with tf1.Session() as session:
                session.run([tf1.global_variables_initializer(), infeed.initializer])
                for _ in range(executions):
                    session.run(train)
                names = [variable.name.split(":")[0] for variable in variables]
                return dict(zip(names, session.run(variables)))


def test_pipeline_trains_in_a_loop_of_its_own(strategy):
    replicas.configure(2)
    found = _trained_pipeline(strategy, 4, 3)
    want = pipelines.expected(4, 3).weights
    pipelines.assert_same_weights(
        pipelines.Outcome(None, {name: found[name] for name in want}),
        pipelines.Outcome(None, want),
    )


def test_function_in_eager_mode_is_one_program(strategy):
    replicas.configure(1)
    with strategy.scope():
        total = tf.Variable(1.0)

        @tf.function
        def step(x):
            total.assign_add(x)
            return total.read_value()

        assert float(strategy.run(step, args=(2.0,))) == 3.0
        with pytest.raises(ValueError, match="does not support eager execution"):
            strategy.run(lambda: total + 1.0)
    assert total.device.endswith("/device:IPU:0")


def test_keras_trains_with_mixed_float16(strategy):
    replicas.configure(1)
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        trained = keras_models.train(keras_models.Kind(keras_models.sequential), strategy.scope())
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    losses = trained.history["loss"]
    assert losses[1] < losses[0]


def test_only_multi_replica_reduces_over_replicas(strategy):
    """Workers exchange gradients that a `CrossReplicaOptimizer` has reduced over their replicas."""
    replicas.configure(2)

    @tf.function(jit_compile=True)
    def program():
        index = tf.cast(ipu.replication_ops.replication_index(), tf.float32) + 1.0
        return strategy.reduce(tf.distribute.ReduceOp.SUM, index, axis=None)

    with strategy.scope():
        found = float(program())
    assert found == (3.0 if isinstance(strategy, IPUMultiReplicaStrategy) else 1.0)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_an_estimator_trains_with_the_strategy(strategy, num_replicas):
    contexts = []

    def input_fn(input_context):
        contexts.append(input_context)
        return estimator_models.repeated()

    config = estimator_models.run_config(
        replicas=num_replicas, train_distribute=strategy, eval_distribute=strategy
    )
    trained = estimator_models.estimator(config)
    losses = estimator_models.Losses()
    trained.train(input_fn, steps=3, hooks=[losses])
    want, want_losses = estimator_models.train_in_session(estimator_models.sgd, 3, num_replicas)
    for name, value in want.items():
        np.testing.assert_allclose(trained.get_variable_value(name), value, rtol=1e-5)
    np.testing.assert_allclose(losses.values, want_losses[:, 0], rtol=1e-5)  # of replica 0
    assert [(one.num_input_pipelines, one.input_pipeline_id) for one in contexts] == [(1, 0)]
    assert trained.evaluate(input_fn, steps=2)["global_step"] == 3
    assert len(list(trained.predict(estimator_models.dataset))) > 0


def test_a_pipeline_estimator_trains_with_the_strategy(strategy):
    """Runs of several steps are allowed: values are exchanged once for each update."""

    def model_fn(mode):
        def optimizer_function(loss):
            optimizer = tf1.train.GradientDescentOptimizer(0.1)
            return ipu.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

        return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
            mode, pipelines.stages(2), 4, optimizer_function=optimizer_function
        )

    def input_fn():
        data = tf.data.Dataset.from_tensor_slices(pipelines.data(8))
        return data.batch(pipelines.BATCH, drop_remainder=True)

    config = estimator_models.run_config(4, shards=2, train_distribute=strategy)
    trained = ipu.ipu_pipeline_estimator.IPUPipelineEstimator(model_fn, config=config)
    trained.train(input_fn, steps=8)
    want = pipelines.expected(4, 2)
    got = {name: trained.get_variable_value(name) for name in want.weights}
    pipelines.assert_same_weights(pipelines.Outcome(None, got), want)


def test_an_estimator_with_loops_is_refused(strategy):
    config = estimator_models.run_config(2, train_distribute=strategy)
    with pytest.raises(NotImplementedError, match="iterations_per_loop > 1"):
        estimator_models.estimator(config)


def test_a_cluster_of_one_worker_is_accepted():
    made = IPUMultiWorkerStrategyV1(resolver(worker=["localhost:1"]))
    assert made.num_replicas_in_sync == 1
    assert made.cluster_resolver.cluster_spec().num_tasks("worker") == 1


def test_joining_workers_after_tensorflow_began_is_refused():
    tf.constant(1).numpy()
    with pytest.raises(RuntimeError, match="cannot join the other instances any more"):
        IPUMultiWorkerStrategy(resolver(worker=["a:1", "b:1"]))


ON_HOST = [
    lambda: IPUMultiWorkerStrategy(resolver(), variables_on_host=True),
    lambda: IPUHorovodStrategy(variables_on_host=True),
]


@pytest.mark.parametrize("make", ON_HOST)
def test_variables_on_the_host_are_for_graph_mode(make):
    with pytest.raises(NotImplementedError, match="variables_on_host=True is for graph mode"):
        make()


@pytest.mark.parametrize("make", ON_HOST)
def test_an_estimator_updates_variables_on_the_host(make):
    """The program computes gradients, and the function of `host_call` applies them."""
    devices = []

    def model_fn(features, labels, mode):
        loss = estimator_models.squared_error(labels, estimator_models.prediction(features))
        variables = tf1.trainable_variables()
        devices.extend(variable.device for variable in variables)
        optimizer = tf1.train.MomentumOptimizer(0.05, 0.9)
        gradients = [gradient for gradient, _ in optimizer.compute_gradients(loss, variables)]

        def host_fn(*on_host):
            return optimizer.apply_gradients(zip(on_host, variables))

        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss, train_op=tf.identity(loss), host_call=(host_fn, gradients)
        )

    with tf.Graph().as_default():
        config = estimator_models.run_config(train_distribute=make())
    trained = estimator_models.estimator(config, model_fn)
    losses = estimator_models.Losses()
    trained.train(estimator_models.repeated, steps=4, hooks=[losses])

    def momentum():
        return tf1.train.MomentumOptimizer(0.05, 0.9)

    want, want_losses = estimator_models.train_in_session(momentum, 4, 1)
    for name in ("kernel", "bias"):
        np.testing.assert_allclose(trained.get_variable_value(name), want[name], rtol=1e-5)
    np.testing.assert_allclose(losses.values, want_losses[:, 0], rtol=1e-5)
    assert devices and all(device.endswith("CPU:0") for device in devices)
    ipu.horovod.shutdown()


def test_variables_on_host_are_read_at_each_launch():
    replicas.configure(1)
    with tf.Graph().as_default():
        strategy = IPUMultiWorkerStrategy(resolver(), variables_on_host=True)
        with strategy.scope():
            table = tf1.get_variable("table", initializer=np.float32([[1.0, 2.0], [3.0, 4.0]]))
            counted = tf.Variable(
                2.0, trainable=False, synchronization=tf.VariableSynchronization.ON_READ
            )

            def program(rows):
                def body(total):
                    looked_up = tf.gather(table, rows)
                    return total + tf.reduce_sum(looked_up) + table.gather_nd([0, 1])

                return ipu.loops.repeat(2, body, [0.0])

            def compiled():
                with ipu.scopes.ipu_scope("/device:IPU:0"):
                    return ipu.ipu_compiler.compile(program, [tf.constant([1])])

            result = strategy.run(compiled)
            doubled = table.assign(table * 2.0)
            refused = tf1.train.GradientDescentOptimizer(0.1)
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                np.testing.assert_allclose(session.run(result), [18.0])
                session.run(doubled)
                np.testing.assert_allclose(session.run(result), [36.0])
            assert table.device.endswith("CPU:0") and counted.device.endswith("IPU:0")

            def update():
                refused.minimize(tf.reduce_sum(table))
                return tf.constant(0)

            with (
                pytest.raises(NotImplementedError, match="apply_gradients on the host"),
                ipu.scopes.ipu_scope("/device:IPU:0"),
            ):
                strategy.run(lambda: ipu.ipu_compiler.compile(update, []))
