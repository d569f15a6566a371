from __future__ import annotations

import glob

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models as models

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys

OPTIMIZERS = {
    "sgd": models.sgd,
    "momentum": lambda: tf1.train.MomentumOptimizer(0.02, 0.9),
    "adam": lambda: tf1.train.AdamOptimizer(0.05),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.01, momentum=0.5),
}
STEPS = 8


@pytest.mark.parametrize(
    ("optimizer", "iterations", "replicas"),
    [
        ("sgd", 1, 1),
        ("sgd", 1, 2),
        ("momentum", 4, 1),
        ("momentum", 4, 2),
        ("adam", 8, 4),
        ("rmsprop", 2, 2),
    ],
)
def test_equals_a_session_on_the_cpu(optimizer: str, iterations: int, replicas: int) -> None:
    """Variables, slots of the optimizer included, and the reported losses."""
    make = OPTIMIZERS[optimizer]
    estimator = models.estimator(
        models.run_config(iterations, replicas), params={"optimizer": make}
    )
    losses = models.Losses()
    estimator.train(models.repeated, steps=STEPS, hooks=[losses])
    variables, expected = models.train_in_session(make, STEPS, replicas)
    assert set(estimator.get_variable_names()) == {*variables, "global_step"}
    for name, value in variables.items():
        np.testing.assert_allclose(estimator.get_variable_value(name), value, rtol=1e-5, atol=1e-6)
    if iterations == 1:
        expected_losses = expected[:, 0]
    else:
        expected_losses = expected.reshape(STEPS // iterations, -1).mean(axis=1)
    np.testing.assert_allclose(losses.values, expected_losses, rtol=1e-5)
    step = estimator.get_variable_value("global_step")
    assert (step, step.dtype) == (STEPS, np.int64)


def test_a_sharded_model_trains_on_two_replicas() -> None:
    """A model on two IPUs, twice."""

    def sharded(features, labels, mode, params):
        with ipu.scopes.ipu_shard(0):
            predictions = models.prediction(features)
        with ipu.scopes.ipu_shard(1):
            loss = models.squared_error(labels, predictions)
        optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(
            ipu.sharded_optimizer.ShardedOptimizer(models.sgd())
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    estimator = models.estimator(models.run_config(2, replicas=2, shards=2), sharded)
    estimator.train(models.repeated, steps=4)
    variables, _ = models.train_in_session(models.sgd, 4, replicas=2)
    np.testing.assert_allclose(
        estimator.get_variable_value("kernel"), variables["kernel"], rtol=1e-5
    )


def test_replicas_are_as_big_as_num_shards_says() -> None:
    """Even if the model names no shard: it must not be replicated instead."""
    estimator = models.estimator(models.run_config(2, shards=2))
    losses = models.Losses()
    estimator.train(models.repeated, steps=4, hooks=[losses])
    _, expected = models.train_in_session(models.sgd, 4, replicas=1)
    np.testing.assert_allclose(losses.values, expected.reshape(2, 2).mean(axis=1), rtol=1e-5)


def test_max_steps_ends_at_first_run_reaching_it() -> None:
    estimator = models.estimator(models.run_config(4))
    estimator.train(models.repeated, max_steps=6)
    assert estimator.get_variable_value("global_step") == 8
    estimator.train(models.repeated, max_steps=8)  # nothing left to do
    assert estimator.get_variable_value("global_step") == 8


def test_model_sees_step_at_start_of_run() -> None:
    seen = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        step = tf.cast(tf1.train.get_global_step(), tf.int32)
        train_op = tf.group(models.sgd().minimize(loss), seen.enqueue(step))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = models.estimator(models.run_config(3), model)
    estimator.train(models.repeated, steps=6)
    with tf.Graph().as_default(), tf1.Session() as session:
        np.testing.assert_array_equal(session.run(seen.dequeue()), [0, 0, 0, 3, 3, 3])


def test_model_function_sees_the_devices_of_its_ops() -> None:
    seen = {}

    def on_host(loss):
        step = tf1.get_variable("on_host", initializer=0.0, use_resource=True)
        seen["host"] = {step.device, (loss * 2.0).device}
        return tf.identity(loss)

    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        seen["model"] = loss.device
        train_op = models.sgd().minimize(loss)
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss, train_op=train_op, host_call=(on_host, [loss])
        )

    models.estimator(models.run_config(1), model).train(models.repeated, steps=1)
    assert seen == {"model": "/device:IPU:0", "host": {"/device:CPU:0"}}


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_host_call_trains(replicas: int) -> None:
    """Gradients leave the device, averaged there, and are applied on the host."""

    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(models.sgd())
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        gradients = [ipu.cross_replica_ops.cross_replica_mean(gradient) for gradient in gradients]

        def apply(*host_gradients):
            assert [g.shape for g in host_gradients] == [v.shape for v in variables]
            return models.sgd().apply_gradients(zip(host_gradients, variables))

        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss, train_op=tf.identity(loss), host_call=(apply, gradients)
        )

    estimator = models.estimator(models.run_config(replicas=replicas), model)
    estimator.train(models.repeated, steps=4)
    variables, _ = models.train_in_session(models.sgd, 4, replicas)
    np.testing.assert_allclose(
        estimator.get_variable_value("kernel"), variables["kernel"], rtol=1e-5
    )
    assert estimator.get_variable_value("global_step") == 4


@pytest.mark.parametrize("returns", ["unread", "read"])
def test_host_call_that_returns_a_variable(returns: str) -> None:
    """`assign_add` returns a resource variable itself, assigned."""

    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))

        def count(value):
            counter = tf1.get_variable("counter", initializer=0.0, use_resource=True)
            assigned = counter.assign_add(tf.ones_like(value), read_value=True)
            assert not isinstance(assigned, (tf.Tensor, tf.Operation))
            return assigned if returns == "unread" else assigned.read_value()

        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss, train_op=tf.identity(loss), host_call=(count, [loss])
        )

    estimator = models.estimator(models.run_config(), model)
    estimator.train(models.repeated, steps=3)
    assert estimator.get_variable_value("counter") == 3


def test_hooks_run_once_for_each_run() -> None:
    """Hooks that are passed and hooks of the model."""
    calls = {"passed": 0, "model": 0}

    class Counter(tf1.train.SessionRunHook):
        def __init__(self, name: str) -> None:
            self.name = name

        def after_run(self, run_context, run_values) -> None:
            calls[self.name] += 1

    def model(features, labels, mode, params):
        spec = models.model_fn(features, labels, mode, params)
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=spec.loss, train_op=spec.train_op, training_hooks=[Counter("model")]
        )

    estimator = models.estimator(models.run_config(2), model)
    estimator.train(models.repeated, steps=6, hooks=[Counter("passed")])
    assert calls == {"passed": 3, "model": 3}


@pytest.mark.parametrize(
    "features",
    [
        lambda x, y: ({"x": x}, y),
        lambda x, y: ((x,), y),
        lambda x, y: {"x": x, "y": y},
    ],
    ids=["dict and labels", "tuple and labels", "dict"],
)
@pytest.mark.parametrize("iterations", [1, 2])
def test_elements_keep_the_structure_of_the_dataset(features, iterations: int) -> None:
    """Features are nested as in the dataset; a model without labels takes only features."""

    def model(features, mode, labels=None):
        if isinstance(features, tuple):
            (features,) = features
        elif labels is None:
            labels = features["y"]
        loss = models.squared_error(labels, models.prediction(features))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=models.sgd().minimize(loss))

    estimator = models.estimator(models.run_config(iterations), model)
    estimator.train(lambda: models.repeated().map(features), steps=2)
    variables, _ = models.train_in_session(models.sgd, 2, 1)
    np.testing.assert_allclose(
        estimator.get_variable_value("kernel"), variables["kernel"], rtol=1e-5
    )


def test_batch_sizes_are_divided() -> None:
    """Each replica gets its share of the global batch; functions get the arguments they name."""
    seen = []

    def input_fn(mode, params, config):
        seen.append((mode, params["batch_size"], config.ipu_run_config.num_replicas))
        flat = models.X.reshape(-1, 3), models.Y.reshape(-1, 1)
        data = tf.data.Dataset.from_tensor_slices(flat).repeat()
        return data.batch(params["batch_size"], drop_remainder=True)

    def model(features, labels, mode, params):
        assert features.shape[0] == params["batch_size"]
        return models.model_fn(features, labels, mode, params)

    estimator = models.estimator(
        models.run_config(2, replicas=2), model, train_batch_size=8, eval_batch_size=4
    )
    estimator.train(input_fn, steps=2)
    estimator.evaluate(input_fn, steps=2)
    assert seen == [(ModeKeys.TRAIN, 4, 2), (ModeKeys.EVAL, 2, 2)]
    variables, _ = models.train_in_session(models.sgd, 2, replicas=2)
    np.testing.assert_allclose(
        estimator.get_variable_value("kernel"), variables["kernel"], rtol=1e-5
    )


def test_the_configuration_is_put_in_force() -> None:
    """The estimator's configuration replaces earlier ones, with its device and prefetch depth."""
    before = ipu.config.IPUConfig()
    before.auto_select_ipus = 4
    before.configure_ipu_system()
    options = ipu.utils.auto_select_ipus(ipu.utils.create_ipu_config(), [1, 2])
    config = models.run_config(
        2, 2, ipu={"ipu_options": options, "ordinal": 1, "prefetch_depth": 7}
    )
    estimator = models.estimator(config)
    estimator.train(models.repeated, steps=2)
    assert ipu.utils.get_num_of_ipus_in_device("/device:IPU:1") == 2
    variables, _ = models.train_in_session(models.sgd, 2, replicas=2)
    np.testing.assert_allclose(
        estimator.get_variable_value("kernel"), variables["kernel"], rtol=1e-5
    )


def test_without_options_system_is_left_as_it_is() -> None:
    before = ipu.config.IPUConfig()
    before.auto_select_ipus = [1, 1]
    before.configure_ipu_system()
    config = models.run_config(ipu={"ipu_options": None, "ordinal": 1})
    models.estimator(config).train(models.repeated, steps=1)
    assert ipu.utils.get_num_of_ipus_in_device("/device:IPU:1") == 1


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_compile_summary_is_in_the_event_files(mode: str) -> None:
    estimator = models.estimator(
        models.run_config(2, save_summary_steps=1, ipu={"compile_summary": True})
    )
    if mode == ModeKeys.TRAIN:
        estimator.train(models.repeated, steps=2)
    else:
        estimator.evaluate(models.repeated, steps=2)
    tags = set()
    for path in glob.glob(f"{estimator.model_dir}/events.*"):
        for event in tf1.train.summary_iterator(path):
            tags |= {value.metadata.plugin_data.plugin_name for value in event.summary.value}
    assert "ipu" in tags


def test_the_end_of_the_dataset_is_an_error() -> None:
    """The end of the data, in the middle of a run, is an error and not the end of the training."""
    estimator = models.estimator(models.run_config(4))
    with pytest.raises(tf.errors.OutOfRangeError, match="repeat the dataset"):
        estimator.train(lambda: models.dataset().take(6), steps=8)
    assert not estimator.latest_checkpoint() or estimator.get_variable_value("global_step") == 0
