"""Builds the training program of `IPUEstimator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tensorflow_ipu import loops
from tensorflow_ipu.estimators import checks, spec
from tensorflow_ipu.estimators.input import Batches, split_element
from tensorflow_ipu.feeds.ipu_infeed_queue import feed_of
from tensorflow_ipu.ops import cross_replica_ops

if TYPE_CHECKING:
    from tensorflow_ipu.estimators.ipu_estimator import IPUEstimator

_TRAIN = tf.estimator.ModeKeys.TRAIN


def build(estimator: IPUEstimator, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
    """Builds the program that does `iterations_per_loop` steps, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: what the model function gets as `config`.

    Returns:
        What a session has to run; see `IPUEstimatorBase`.
    """
    iterations = estimator._ipu.iterations_per_loop
    step = _Step(estimator, config)

    def one_step() -> list[tf.Tensor]:
        element = feed_of(batches.infeed).dequeue()
        if isinstance(element, dict):
            loss = step.train((), element)
        else:
            loss = step.train(element if isinstance(element, tuple) else (element,), {})
        return [loss, *step.tensors_for_host()]

    def all_steps() -> tf.Tensor:
        def body(total: tf.Tensor, /, *args: Any, **kwargs: Any) -> tf.Tensor:
            loss = step.train(args, kwargs)
            step.refuse_host_call()
            with estimator._on_last_shard():
                return total + loss

        total = loops.repeat(iterations, body, [tf.constant(0.0)], batches.infeed)
        return cross_replica_ops.cross_replica_mean(total / iterations)

    loss, *tensors = estimator._compile(one_step if iterations == 1 else all_steps)
    return step.session_spec(loss, tensors)


class _Step:
    """One step on one replica. Remembers what the model function returned."""

    def __init__(self, estimator: IPUEstimator, config: Any) -> None:
        self._estimator = estimator
        self._config = config
        self._global_step = tf1.train.get_global_step()
        self._returned: Any = None
        self._spec: Any = None

    def train(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tf.Tensor:
        """Adds the step to the program.

        Args:
            args: features, and labels if there are any.
            kwargs: features by name, instead.

        Returns:
            The loss before the step, a float32 scalar that is there after it.
        """
        features, labels = split_element(args, kwargs)
        self._returned = self._estimator._call_user_model(features, labels, _TRAIN, self._config)
        self._spec = spec.from_stock(self._returned)
        graph = tf1.get_default_graph()
        checks.check_global_step(graph, self._global_step)
        checks.check_replicated_training(graph, self._estimator._ipu.num_replicas)
        with self._estimator._on_last_shard(), tf.control_dependencies([self._spec.train_op]):
            return tf.cast(tf.identity(self._spec.loss), tf.float32)

    def tensors_for_host(self) -> list[tf.Tensor]:
        """Returns what the host call takes, as it is after the step."""
        if self._spec.host_call is None:
            return []
        with tf.control_dependencies([self._spec.train_op]):
            return [tf.identity(tensor) for tensor in self._spec.host_call[1]]

    def refuse_host_call(self) -> None:
        """Raises an error if the model has a host call.

        Raises:
            ValueError: If so.
        """
        if self._spec.host_call is not None:
            raise ValueError(
                "host_call is not allowed for iterations_per_loop > 1, as the host cannot come "
                "in between the iterations of one run. Received: iterations_per_loop="
                f"{self._estimator._ipu.iterations_per_loop}"
            )

    def session_spec(self, loss: tf.Tensor, tensors: list[tf.Tensor]) -> tf.estimator.EstimatorSpec:
        """Returns what a session has to run.

        Args:
            loss: result of the launch.
            tensors: those for the host call, if there is one.
        """
        train_op = loss.op
        if self._spec.host_call is not None:
            with self._estimator._on_host(), tf.control_dependencies([train_op]):
                train_op = spec.host_operation(self._spec.host_call[0](*tensors))
        return tf.estimator.EstimatorSpec(
            _TRAIN,
            loss=spec.loss_that_moves(loss),
            train_op=train_op,
            training_hooks=self._spec.training_hooks,
            training_chief_hooks=getattr(self._returned, "training_chief_hooks", None),
            scaffold=getattr(self._returned, "scaffold", None),
        )
