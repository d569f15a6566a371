"""Small trainings that one process and several instances do alike, each on its own data.

A training is given the `Place` of this process, and returns what it has trained: arrays by name.
The mini-batches of a step are dealt to the replicas of all instances in order, so what is trained
depends on their total number only.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import keras_pipelines, pipelines

tf1 = tf.compat.v1
Trained = dict[str, np.ndarray]

STEPS = 3
ACCUMULATED = 4
# Options of an optimizer whose state is split over replicas.
SHARDED = {
    "offload_weight_update_variables": True,
    "replicated_optimizer_state_sharding": True,
}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a training runs.

    Args:
        strategy: the strategy, in whose scope it is built.
        count: the instances.
        index: which of them this process is.
        replicas: replicas in each.
        target: the server for sessions; in this process if empty.
    """

    strategy: Any
    count: int
    index: int
    replicas: int
    target: str = ""

    def configure(self, ipus_per_replica: int = 1) -> Any:
        """Attaches a device with the IPUs of this instance; returns its configuration."""
        config = self.options(ipus_per_replica)
        config.configure_ipu_system()
        return config

    def options(self, ipus_per_replica: int = 1) -> Any:
        """Returns a configuration for the IPUs of this instance."""
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = self.replicas * ipus_per_replica
        update = getattr(self.strategy, "update_ipu_config", lambda same: same)
        return update(config)

    def own(self, array: np.ndarray, per_replica: int) -> np.ndarray:
        """Returns this instance's share of the elements of all steps.

        Args:
            array: the elements, in the order of steps, then replicas.
            per_replica: how many of them in a row each replica gets.
        """
        rows = array.reshape(-1, self.count, self.replicas * per_replica, *array.shape[1:])
        return rows[:, self.index].reshape(-1, *array.shape[1:])

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """Opens a session."""
        update = getattr(self.strategy, "update_config_proto", lambda same: same)
        with tf1.Session(self.target, config=update(tf1.ConfigProto())) as session:
            yield session


def total(place: Place) -> int:
    """Returns the number of replicas in all instances."""
    return place.count * place.replicas


def _batches(place: Place, rounds: int) -> tf.data.Dataset:
    x, labels = pipelines.data(rounds * total(place))
    own = [place.own(each, pipelines.BATCH) for each in (x, labels)]
    return tf.data.Dataset.from_tensor_slices(tuple(own)).batch(
        pipelines.BATCH, drop_remainder=True
    )


def _initialized(place: Place, session: Any, infeed: Any) -> None:
    del place
    session.run([tf1.global_variables_initializer(), infeed.initializer])


def _values(session: Any) -> Trained:
    variables = tf1.global_variables()
    return dict(zip([each.op.name for each in variables], session.run(variables)))


def momentum() -> Any:
    """Returns an optimizer with a state."""
    return tf1.train.MomentumOptimizer(0.1, 0.9)


def averaged(optimizer: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a function that makes an optimizer with gradients averaged over replicas."""
    return lambda: ipu.cross_replica_optimizer.CrossReplicaOptimizer(optimizer())


def sharded() -> Any:
    """Returns an optimizer that accumulates, and whose state is split over replicas."""
    return ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2(momentum(), STEPS, **SHARDED)


def accumulated() -> Any:
    """Returns an optimizer that accumulates, and leaves it to the strategy to add up."""
    return ipu.optimizers.GradientAccumulationOptimizerV2(momentum(), STEPS)


def graph_loop(place: Place, optimizer: Callable[[], Any] = momentum) -> Trained:
    """Trains in a loop on the device, as a TensorFlow 1 program does."""
    place.configure()
    with tf.Graph().as_default(), place.strategy.scope():
        # What the other instances begin with is to be of no account.
        tf1.set_random_seed(1 + place.index)
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(_batches(place, 2 * STEPS))
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def body(x: tf.Tensor, labels: tf.Tensor) -> tf.Operation:
            loss = pipelines.loss_of(_linear(x), labels)
            with tf.control_dependencies([optimizer().minimize(loss)]):
                return outfeed.enqueue(loss)

        def compiled() -> Any:
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                return ipu.ipu_compiler.compile(
                    lambda: ipu.loops.repeat(STEPS, body, [], infeed, use_while_v1=False), []
                )

        train = _run(place, compiled)
        losses = outfeed.dequeue()
        ipu.utils.move_variable_initialization_to_cpu()
        with place.session() as session:
            _initialized(place, session, infeed)
            for _ in range(2):
                session.run(train)
            return {**_values(session), "losses of this instance": session.run(losses)}


def _run(place: Place, function: Callable[[], Any]) -> Any:
    """Runs a function as the strategy has it; without `experimental_run_v2` directly."""
    run = getattr(place.strategy, "experimental_run_v2", None)
    return function() if run is None else run(function)


def graph_pipeline(
    place: Place, optimizer: Callable[[], Any] = momentum, **arguments: Any
) -> Trained:
    """Trains a pipeline of two stages, which accumulates gradients."""
    place.configure(2)
    with tf.Graph().as_default(), place.strategy.scope():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(_pipeline_batches(place))
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def model() -> Any:
            return ipu.pipelining_ops.pipeline(
                pipelines.stages(2),
                gradient_accumulation_count=ACCUMULATED,
                repeat_count=STEPS,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                    optimizer(), loss
                ),
                **arguments,
            )

        def compiled() -> Any:
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                return ipu.ipu_compiler.compile(model, [])

        train = _run(place, compiled)
        ipu.utils.move_variable_initialization_to_cpu()
        loss = tf.reduce_mean(outfeed.dequeue())
        reduced = place.strategy.reduce(tf.distribute.ReduceOp.SUM, loss)
        with place.session() as session:
            _initialized(place, session, infeed)
            session.run(train)
            return {**_values(session), "rounded loss": session.run(reduced) / place.count}


def _pipeline_batches(place: Place) -> tf.data.Dataset:
    return _batches(place, STEPS * ACCUMULATED)


def keras_fit(place: Place) -> Trained:
    """Trains with Keras: dropout, a metric, and the loss of all replicas."""
    place.configure()
    ipu.utils.reset_ipu_seed(7)
    steps = 2 * STEPS
    with place.strategy.scope():
        model = tf.keras.Sequential(
            [
                keras_pipelines.dense(6, 1 + place.index),
                tf.keras.layers.Dropout(0.3, seed=3),
                keras_pipelines.dense(pipelines.CLASSES, 2 + place.index, None),
            ]
        )
        model.compile(
            tf.keras.optimizers.SGD(0.1, momentum=0.9),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=steps,
        )
        model.build((pipelines.BATCH, pipelines.FEATURES))
        model.fit(_batches(place, steps), epochs=2, verbose=0)
        return _named(model)


def keras_pipeline_fit(place: Place, **arguments: Any) -> Trained:
    """Trains a Keras model of two stages, which accumulates gradients."""
    place.configure(2)
    ipu.utils.reset_ipu_seed(7)
    x, y = keras_pipelines.data(STEPS * ACCUMULATED * total(place))
    own = [place.own(each, keras_pipelines.BATCH) for each in (x, y)]
    with place.strategy.scope():
        model = keras_pipelines.functional()
        model.compile(
            tf.keras.optimizers.Adam(0.05), "mse", steps_per_execution=STEPS * ACCUMULATED
        )
        model.set_pipelining_options(ACCUMULATED, **arguments)
        model.fit(keras_pipelines.dataset(*own), verbose=0)
        return _named(model)


def estimator(place: Place, folder: str, replicas_reduce: bool = True) -> Trained:
    """Trains an `IPUEstimator`, goes on from its checkpoint, and evaluates the result.

    Args:
        place: where to run.
        folder: for checkpoints.
        replicas_reduce: whether one program runs on all replicas; else the chief of the workers
            evaluates in between too.
    """

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = pipelines.loss_of(_linear(features), labels)
        if mode == tf.estimator.ModeKeys.EVAL:
            metrics = {"mean": tf1.metrics.mean(loss)}
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
        optimizer = averaged(momentum)() if replicas_reduce else momentum()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    def input_fn(input_context: Any) -> tf.data.Dataset:
        if input_context.num_input_pipelines > 1:
            assert input_context.num_input_pipelines == place.count
            assert input_context.input_pipeline_id == place.index
        return _batches(place, 2 * STEPS).repeat()

    trained = ipu.ipu_estimator.IPUEstimator(model_fn, config=_run_config(place, folder))
    trained.train(input_fn, steps=STEPS)
    if replicas_reduce:
        trained.train(input_fn, steps=STEPS)
    else:
        between, _ = tf.estimator.train_and_evaluate(
            trained,
            tf.estimator.TrainSpec(input_fn, max_steps=2 * STEPS),
            tf.estimator.EvalSpec(input_fn, steps=STEPS, throttle_secs=0),
        )
        assert (between is None) == (place.index > 0)
        assert trained.config.is_chief == (place.index == 0)
    result = trained.evaluate(input_fn, steps=STEPS)
    assert result["global_step"] == 2 * STEPS
    # Only the chief has written summaries.
    assert len(list(Path(folder).glob("events.*"))) == 1
    return {**_of_checkpoint(trained), "evaluated by this instance": np.asarray(result["mean"])}


def _linear(x: tf.Tensor) -> tf.Tensor:
    shape = [pipelines.FEATURES, pipelines.CLASSES]
    weight = tf1.get_variable("w", shape, initializer=tf1.glorot_uniform_initializer())
    bias = tf1.get_variable("b", shape[1:], initializer=tf1.zeros_initializer())
    return tf.matmul(x, weight) + bias


def pipeline_estimator(place: Place, folder: str, optimizer: Callable[[], Any]) -> Trained:
    """Trains an `IPUPipelineEstimator`, several updates in a run."""

    def model_fn(mode: str) -> Any:
        return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
            mode,
            pipelines.stages(2),
            ACCUMULATED,
            optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                optimizer(), loss
            ),
        )

    def input_fn() -> tf.data.Dataset:
        return _pipeline_batches(place)

    config = _run_config(place, folder, 2, STEPS * ACCUMULATED)
    trained = ipu.ipu_pipeline_estimator.IPUPipelineEstimator(model_fn, config=config)
    trained.train(input_fn, steps=STEPS * ACCUMULATED)
    return _of_checkpoint(trained)


def _run_config(place: Place, folder: str, shards: int = 1, iterations: int = 1) -> Any:
    return ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(
            iterations_per_loop=iterations,
            num_replicas=place.replicas,
            num_shards=shards,
            ipu_options=place.options(shards),
        ),
        model_dir=folder,
        tf_random_seed=1 + place.index,
        train_distribute=place.strategy,
        eval_distribute=place.strategy,
        log_step_count_steps=None,
    )


def _of_checkpoint(trained: Any) -> Trained:
    names = trained.get_variable_names()
    return {name: np.asarray(trained.get_variable_value(name)) for name in names}


def _named(model: Any) -> Trained:
    return {f"{i} {each.name}": each.numpy() for i, each in enumerate(model.variables)}
