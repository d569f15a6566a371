"""Builds the evaluation program of `IPUEstimator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tensorflow_ipu import loops
from tensorflow_ipu.estimators import spec
from tensorflow_ipu.estimators.input import Batches, split_element
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue, feed_of
from tensorflow_ipu.ops import cross_replica_ops

if TYPE_CHECKING:
    from tensorflow_ipu.estimators.ipu_estimator import IPUEstimator

_EVAL = tf.estimator.ModeKeys.EVAL
_Metrics = dict[str, tuple[Any, Any]]


def build(estimator: IPUEstimator, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
    """Builds the program that evaluates `iterations_per_loop` batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: what the model function gets as `config`.

    Returns:
        What a session has to run; see `IPUEstimatorBase`.
    """
    iterations = estimator._ipu.iterations_per_loop
    step = _Step(estimator, batches, config)

    def program() -> tf.Tensor:
        def body(total: tf.Tensor, /, *args: Any, **kwargs: Any) -> tf.Tensor:
            return total + step.evaluate(args, kwargs)

        total = loops.repeat(iterations, body, [tf.constant(0.0)], batches.infeed)
        return cross_replica_ops.cross_replica_mean(total / iterations)

    (loss,) = estimator._compile(program)
    with estimator._on_host():
        return step.session_spec(loss)


class _Step:
    """One iteration on one replica. Remembers what the model function returned."""

    def __init__(self, estimator: IPUEstimator, batches: Batches, config: Any) -> None:
        self._estimator = estimator
        self._batches = batches
        self._config = config
        self._returned: Any = None
        self._spec: Any = None
        self._outfeed: Any = None

    def evaluate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tf.Tensor:
        """Adds the iteration to the program.

        Args:
            args: features, and labels if there are any.
            kwargs: features by name, instead.

        Returns:
            The loss, a float32 scalar.
        """
        features, labels = split_element(args, kwargs)
        self._returned = self._estimator._call_user_model(features, labels, _EVAL, self._config)
        self._spec = check_metrics(spec.from_stock(self._returned))
        if self._spec.eval_metrics is not None:
            mode, tensors = IPUOutfeedMode.ALL, self._spec.eval_metrics[1]
        else:
            mode, tensors = IPUOutfeedMode.LAST, updates(self._spec.eval_metric_ops)
        with (
            self._estimator._on_last_shard(),
            tf.control_dependencies(self._enqueue(mode, tensors)),
        ):
            return tf.cast(tf.identity(self._spec.loss), tf.float32)

    def _enqueue(self, mode: IPUOutfeedMode, tensors: Any) -> list[tf.Operation]:
        if not tensors:
            return []
        self._outfeed = self._batches.new_outfeed(mode)
        return [self._outfeed.enqueue(tensors)]

    def session_spec(self, loss: tf.Tensor) -> tf.estimator.EstimatorSpec:
        """Returns what a session has to run, after the launch.

        Args:
            loss: result of the launch.
        """
        return tf.estimator.EstimatorSpec(
            _EVAL,
            loss=spec.loss_that_moves(loss),
            eval_metric_ops=self._metrics(loss),
            evaluation_hooks=self._spec.evaluation_hooks,
            scaffold=getattr(self._returned, "scaffold", None),
        )

    def _metrics(self, launch: tf.Tensor) -> _Metrics:
        """Makes the metrics of the host."""
        options = self._estimator._ipu
        if self._spec.eval_metrics is None:
            values = dequeued(self._outfeed, [], options.num_replicas, launch)
            return {
                name: last_value(name, value, options.num_replicas)
                for name, value in values.items()
            }
        function, tensors = self._spec.eval_metrics
        if self._outfeed is not None:
            iterations = options.iterations_per_loop
            tensors = dequeued(self._outfeed, [iterations], options.num_replicas, launch)
        return metrics_dict(spec.call_host_function((function, tensors)))


def check_metrics(spec: spec.IPUEstimatorSpec) -> spec.IPUEstimatorSpec:
    """Returns a specification, if it says in one way how to evaluate.

    Raises:
        ValueError: If it does so in both, or not at all.
    """
    if spec.eval_metric_ops and spec.eval_metrics is not None:
        raise ValueError(
            "EstimatorSpec cannot contain both eval_metric_ops and eval_metrics: the first are "
            "computed on the device, the second on the host. Leave one of them out."
        )
    if not spec.eval_metric_ops and spec.eval_metrics is None:
        raise ValueError(
            "EstimatorSpec must contain either eval_metric_ops or eval_metrics when evaluating. "
            "Return one of them from the model function in the mode EVAL."
        )
    return spec


def updates(metric_ops: dict[str, tuple[tf.Tensor, Any]]) -> dict[str, tf.Tensor]:
    """Returns the values of metrics after their update.

    Args:
        metric_ops: pairs of value and update op by name.
    """
    return {
        name: _read_after(value, update) if isinstance(update, tf.Operation) else update
        for name, (value, update) in metric_ops.items()
    }


def _read_after(value: tf.Tensor, update: tf.Operation) -> tf.Tensor:
    """Returns a value that is computed after an update, such as that of a Keras metric.

    A stock estimator asks for the value in another run. Here both are in one program.
    """
    before = _ancestors(update)
    for op in _ancestors(value.op) - before:
        if op.type == "ReadVariableOp":
            op._add_control_input(update)
    with tf.control_dependencies([update]):
        return tf.identity(value)


def _ancestors(op: tf.Operation) -> set[Any]:
    """Returns an op and all that have to run before it."""
    found: set[Any] = set()
    pending = [op]
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return found


def metrics_dict(metrics: Any) -> _Metrics:
    """Returns what a function for `eval_metrics` returned, if it is a dict.

    Raises:
        TypeError: If it is something else.
    """
    if not isinstance(metrics, dict):
        raise TypeError(
            "The function of `eval_metrics` must return a dict of (value, update_op) by name. "
            f"Received: {type(metrics).__name__}"
        )
    return metrics


def dequeued(outfeed: IPUOutfeedQueue, leading: list[int], replicas: int, launch: Any) -> Any:
    """Takes what a program has put into an outfeed, with the shapes that are known.

    Only this has to come after the launch. A metric must not: the session asks for its value in
    a run of its own at the end, which would launch the program once more.

    Args:
        outfeed: the queue.
        leading: number of iterations in mode `ALL`; empty in mode `LAST`.
        replicas: how many there are.
        launch: what has to be run before.

    Returns:
        The structure that was enqueued; shapes start with `leading`, then `[R]` if R > 1.
    """
    dimensions = [*leading, replicas] if replicas > 1 else leading

    def shaped(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
        tensor.set_shape(tf.TensorShape(dimensions).concatenate(spec.shape))
        return tensor

    element_spec = feed_of(outfeed).element_spec
    with tf.control_dependencies([launch]):
        return tf.nest.map_structure(shaped, outfeed.dequeue(), element_spec)


def last_value(name: str, value: tf.Tensor, replicas: int) -> tuple[tf.Tensor, tf.Operation]:
    """Returns a metric that is what a program said last.

    Args:
        name: its name.
        value: what the program says: `[R, ...]` if R > 1, and averaged over that.
        replicas: how many there are.

    Returns:
        The value, and the op that sets it.
    """
    if replicas > 1:
        value = tf.reduce_mean(value if value.dtype.is_floating else tf.cast(value, tf.float32), 0)
    # Nothing is there to be read again when the session asks for the results.
    variable = tf1.Variable(
        lambda: tf.zeros(value.shape, value.dtype),
        trainable=False,
        collections=[tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.METRIC_VARIABLES],
        use_resource=True,
        name=name,
    )
    return variable.read_value(), variable.assign(value).op
