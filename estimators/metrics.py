"""Metrics of estimators: from the program on the device to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue, feed_of

if TYPE_CHECKING:
    from tensorflow_ipu.estimators.specs import IPUEstimatorSpec

_Metrics = dict[str, tuple[Any, Any]]


def check_metrics(spec: IPUEstimatorSpec) -> IPUEstimatorSpec:
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
    """Returns a metric's value with its reads ordered after the update, as Keras metrics need it.

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
    """Returns the result of an `eval_metrics` function after checking that it is a dict of metrics.

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
    """Dequeues the values of a launch from an outfeed and sets their known shapes.

    Only this has to come after the launch. A metric must not: the session asks for its value in
    a run of its own at the end, which would launch the program once more.

    Args:
        outfeed: the queue.
        leading: number of iterations in mode `ALL`; empty in mode `LAST`.
        replicas: how many there are.
        launch: the op to run before.

    Returns:
        The structure that was enqueued; shapes start with `leading`, then `[R]` if R > 1.
    """
    dimensions = [*leading, replicas] if replicas > 1 else leading

    def shaped(tensor: tf.Tensor, like: tf.TensorSpec) -> tf.Tensor:
        tensor.set_shape(tf.TensorShape(dimensions).concatenate(like.shape))
        return tensor

    element_spec = feed_of(outfeed).element_spec
    with tf.control_dependencies([launch]):
        return tf.nest.map_structure(shaped, outfeed.dequeue(), element_spec)


def last_value(name: str, value: tf.Tensor, replicas: int) -> tuple[tf.Tensor, tf.Operation]:
    """Returns a metric whose value is the program's last one.

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
