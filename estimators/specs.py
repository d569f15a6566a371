"""Specs: results of the model functions of estimators, and their checks."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue, feed_of
from tensorflow_ipu.ops.pipeline import pipeline_arguments
from tensorflow_ipu.runtime import system
from tensorflow_ipu.util.short_repr import shows

# --- Spec of IPUEstimator ---

EstimatorSpec = tf.estimator.EstimatorSpec


class IPUEstimatorSpec(
    collections.namedtuple(
        "IPUEstimatorSpec",
        [
            "mode",
            "predictions",
            "loss",
            "train_op",
            "eval_metric_ops",
            "eval_metrics",
            "host_call",
            "training_hooks",
            "evaluation_hooks",
            "prediction_hooks",
        ],
    )
):
    """The result of a model function of `IPUEstimator`: an `EstimatorSpec` with host functions."""

    __slots__ = ()

    __repr__ = shows(lambda self: self._asdict())

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: dict[str, Any] | None = None,
        eval_metrics: tuple[Callable[..., Any], Any] | None = None,
        host_call: tuple[Callable[..., Any], list[Any]] | None = None,
        training_hooks: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> IPUEstimatorSpec:
        """Creates a spec from the parts of a model, and checks them.

        Args:
            mode: the `tf.estimator.ModeKeys` it was called with.
            predictions: a tensor or a dict of tensors; required to predict.
            loss: a scalar; required to train and to evaluate.
            train_op: trains; required to train.
            eval_metric_ops: pairs of value and update op by name, run on the device.
            eval_metrics: a function and the tensors that it takes, a list or a dict. It runs on
                the host once for each run, with the tensors of all iterations stacked, and returns
                pairs of value and update op by name.
            host_call: a function and a list of the tensors that it takes. It is built on the
                host, after each run, and returns what trains.
            training_hooks: hooks for sessions that train.
            evaluation_hooks: hooks for sessions that evaluate.
            prediction_hooks: hooks for sessions that predict.

        Returns:
            The specification.

        Raises:
            ValueError: If something required is missing, or has the wrong shape or graph.
            TypeError: If something has the wrong type.
        """
        _check_host_function("host_call", host_call, (list,))
        _check_host_function("eval_metrics", eval_metrics, (list, dict))
        stock = EstimatorSpec(
            mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=eval_metric_ops,
            training_hooks=training_hooks,
            evaluation_hooks=evaluation_hooks,
            prediction_hooks=prediction_hooks,
        )
        return super().__new__(
            cls,
            mode,
            predictions=stock.predictions,
            loss=stock.loss,
            train_op=stock.train_op,
            eval_metric_ops=stock.eval_metric_ops,
            eval_metrics=eval_metrics,
            host_call=host_call,
            training_hooks=stock.training_hooks,
            evaluation_hooks=stock.evaluation_hooks,
            prediction_hooks=stock.prediction_hooks,
        )


def _check_host_function(name: str, value: Any, containers: tuple[type, ...]) -> None:
    """Checks a pair of a function and its tensors.

    Raises:
        TypeError: If it is no tuple, or a member has the wrong type.
        ValueError: If it is not a pair.
    """
    if value is None:
        return
    wanted = " or ".join(container.__name__ for container in containers)
    if not isinstance(value, tuple):
        raise TypeError(f"`{name}` must be a tuple. Received: {type(value).__name__}")
    if len(value) != 2:
        raise ValueError(
            f"`{name}` must have two elements: a function and a {wanted} of tensors. Received: "
            f"{len(value)} elements"
        )
    if not callable(value[0]):
        raise TypeError(
            f"The first element of `{name}` must be callable. Received: {type(value[0]).__name__}"
        )
    if not isinstance(value[1], containers):
        raise TypeError(
            f"The second element in `{name}` must be a {wanted} of tensors. Received: "
            f"{type(value[1]).__name__}"
        )


def from_stock(spec: Any) -> IPUEstimatorSpec:
    """Converts the result of a model function to an `IPUEstimatorSpec`.

    Args:
        spec: an `IPUEstimatorSpec` or an `EstimatorSpec`.

    Raises:
        ValueError: If it is something else.
    """
    if isinstance(spec, IPUEstimatorSpec):
        return spec
    if not isinstance(spec, EstimatorSpec):
        raise ValueError(
            "model_fn should return an EstimatorSpec or an IPUEstimatorSpec. "
            f"Received: {type(spec).__name__}"
        )
    common = set(IPUEstimatorSpec._fields) & set(spec._fields)
    return IPUEstimatorSpec(**{name: getattr(spec, name) for name in common})


def loss_that_moves(loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss of a launch as the host gets it.

    With synthetic data nothing leaves the device. What the variables are made of may well give no
    number, at which stock estimators would stop.

    Args:
        loss: result of the launch.
    """
    if not common.is_synthetic(SyntheticDataCategory.Outfeed):
        return loss
    with tf.device("/device:CPU:0"):
        return tf.zeros_like(loss)


def host_operation(returned: Any) -> Any:
    """Converts the result of a `host_call` function to an op or tensor that a session can run.

    Args:
        returned: an operation, a tensor, or a variable: what its `assign_add` returned.

    Raises:
        TypeError: If it is something else.
    """
    if isinstance(returned, tf.Variable):
        return tf.convert_to_tensor(returned)
    if not isinstance(returned, (tf.Operation, tf.Tensor)):
        raise TypeError(
            "The `host_call` return value must be Operation or Tensor. Return the operation that "
            f"is to run on the host. Received: {type(returned).__name__}"
        )
    return returned


def call_host_function(pair: tuple[Callable[..., Any], Any]) -> Any:
    """Calls the function of a pair of a function and its tensors."""
    function, tensors = pair
    return function(**tensors) if isinstance(tensors, dict) else function(*tensors)


# --- Spec of IPUPipelineEstimator ---

ModeKeys = tf.estimator.ModeKeys


# What the pipeline of each mode cannot do without.
_DOING = {ModeKeys.TRAIN: "training", ModeKeys.EVAL: "evaluating"}


_REQUIRED = {ModeKeys.TRAIN: "optimizer_function", ModeKeys.EVAL: "eval_metrics_fn"}


# Arguments of the pipeline that the estimator sets -> what to use instead.
_SET_BY_ESTIMATOR = {
    "accumulate_outfeed": "It sums up the loss of each execution when it trains.",
    "accumulate_outfeed_dtype": "Use loss_accumulator_dtype.",
    "infeed_queue": "It feeds the dataset of input_fn.",
    "outfeed_queue": "It takes losses and predictions to the host.",
    "outfeed_loss": "It takes the loss to the host when it trains.",
    "outfeed_mask": "It takes all outputs to the host, and the loss alone when it trains.",
    "repeat_count": "It is iterations_per_loop divided by gradient_accumulation_count.",
}


class IPUPipelineEstimatorSpec(
    collections.namedtuple(
        "IPUPipelineEstimatorSpec",
        [
            "mode",
            "computational_stages",
            "gradient_accumulation_count",
            "eval_metrics_fn",
            "optimizer_function",
            "device_mapping",
            "loss_accumulator_dtype",
            "training_hooks",
            "evaluation_hooks",
            "prediction_hooks",
            "reduction_method",
            "pipeline_op_kwargs",
        ],
    )
):
    """The result of a model function of `IPUPipelineEstimator`: the parts of a pipeline."""

    __slots__ = ()

    __repr__ = shows(lambda self: self._asdict())

    def __new__(
        cls,
        mode: str,
        computational_stages: Sequence[Any] | None,
        gradient_accumulation_count: int | None = None,
        eval_metrics_fn: Callable[..., dict[str, Any]] | None = None,
        optimizer_function: Callable[..., Any] | None = None,
        device_mapping: Sequence[Any] | None = None,
        loss_accumulator_dtype: Any = None,
        training_hooks: Iterable[Any] | None = None,
        evaluation_hooks: Iterable[Any] | None = None,
        prediction_hooks: Iterable[Any] | None = None,
        reduction_method: GradientAccumulationReductionMethod
        | str = GradientAccumulationReductionMethod.SUM,
        **pipeline_op_kwargs: Any,
    ) -> IPUPipelineEstimatorSpec:
        """Checks the parts and keeps them.

        Args:
            mode: the `tf.estimator.ModeKeys` that the model function was called with.
            computational_stages: a function for each stage, as for `pipelining_ops.pipeline`, which
                checks them. The first one gets the element of the dataset: members of a tuple as
                positional arguments, a dict as keyword arguments.
            gradient_accumulation_count: Mini-batches for each weight update.
            eval_metrics_fn: takes what the last stage returned, for all mini-batches of a run
                (`[iterations_per_loop, (num_replicas), ...]`), on the host. Returns a dict with the
                tensor "loss", and pairs of value and update op. Required to evaluate.
            optimizer_function: takes what the last stage returned, and returns an
                `OptimizerFunctionOutput`. Required to train.
            device_mapping: the IPU of each stage; stage `i` is on IPU `i` when None.
            loss_accumulator_dtype: type in which the loss is summed up: that of the loss when None.
            training_hooks: hooks for sessions that train.
            evaluation_hooks: hooks for sessions that evaluate.
            prediction_hooks: hooks for sessions that predict.
            reduction_method: how the gradients of mini-batches become one.
            **pipeline_op_kwargs: further arguments of `pipelining_ops.pipeline`.

        Returns:
            The specification.

        Raises:
            ValueError: If something that the mode needs is missing, or an argument of the pipeline
                is given that the estimator sets.
            TypeError: If something has the wrong type.
        """
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
            raise ValueError(f"mode must be a tf.estimator.ModeKeys. Received: {mode!r}")
        _check_keywords(pipeline_op_kwargs)
        spec = super().__new__(
            cls,
            mode,
            _stages(computational_stages),
            _count(gradient_accumulation_count),
            _callable("eval_metrics_fn", eval_metrics_fn),
            _callable("optimizer_function", optimizer_function),
            device_mapping,
            loss_accumulator_dtype,
            _hooks("training_hooks", training_hooks),
            _hooks("evaluation_hooks", evaluation_hooks),
            _hooks("prediction_hooks", prediction_hooks),
            GradientAccumulationReductionMethod.parse(reduction_method),
            pipeline_op_kwargs,
        )
        check_required(spec, mode)
        return spec

    @property
    def mini_batches_per_execution(self) -> int:
        """Mini-batches of one replica from one weight update to the next."""
        return int(self.gradient_accumulation_count) * self._serialization

    @property
    def devices(self) -> frozenset[int]:
        """IPUs of the stages, by index within a replica."""
        if self.device_mapping is not None:
            return frozenset(tf.nest.flatten(self.device_mapping)) - {pipeline_arguments.ALL_IPUS}
        devices = pipeline_arguments.stage_devices(
            None, self.computational_stages, self._serialization
        )
        return frozenset(ipu for members in devices for ipu in members)

    @property
    def _serialization(self) -> int:
        return int(self.pipeline_op_kwargs.get("batch_serialization_iterations", 1))


def check_required(spec: IPUPipelineEstimatorSpec, mode: str) -> None:
    """Raises if a spec lacks the field that a mode needs.

    Args:
        spec: the specification.
        mode: the mode.

    Raises:
        ValueError: If so.
    """
    name = _REQUIRED.get(mode)
    if name is not None and getattr(spec, name) is None:
        raise ValueError(
            f"`IPUPipelineEstimatorSpec` must contain `{name}` when {_DOING[mode]}. Received: "
            f"{name}=None"
        )


def repeat_count(spec: IPUPipelineEstimatorSpec, iterations_per_loop: int) -> int:
    """Returns how often the pipeline is executed in one run.

    Args:
        spec: the pipeline.
        iterations_per_loop: Mini-batches of one replica in one run.

    Raises:
        ValueError: If that is not a number of whole executions.
    """
    size = spec.mini_batches_per_execution
    if iterations_per_loop < size or iterations_per_loop % size:
        wrong = "cannot be less than" if iterations_per_loop < size else "must be divisible by"
        raise ValueError(
            f"`IPURunConfig.iterations_per_loop` (got {iterations_per_loop}) {wrong} "
            f"`gradient_accumulation_count` (got {spec.gradient_accumulation_count}): each "
            f"execution of the pipeline takes {size} mini-batches."
        )
    return iterations_per_loop // size


def check_devices(spec: IPUPipelineEstimatorSpec, num_shards: int) -> None:
    """Raises if a pipeline does not fit the IPUs of a replica.

    Args:
        spec: the pipeline.
        num_shards: IPUs of each replica.

    Raises:
        ValueError: If it needs more of them, or leaves half of them unused.
    """
    used = len(spec.devices)
    if not num_shards / 2 < used <= num_shards:
        raise ValueError(
            f"This pipeline requires {used} devices, but `IPURunConfig.num_shards` was set to "
            f"{num_shards}. Each replica has so many IPUs: set num_shards to {used}, or to the "
            f"next power of two. {system.current().machine.offer}"
        )


def _check_keywords(pipeline_op_kwargs: dict[str, Any]) -> None:
    for name, instead in _SET_BY_ESTIMATOR.items():
        if name in pipeline_op_kwargs:
            raise ValueError(
                f"`{name}` cannot be passed to `IPUPipelineEstimatorSpec`: the estimator sets it. "
                f"{instead} Received: {name}={pipeline_op_kwargs[name]!r}"
            )


def _stages(value: Any) -> Any:
    """Returns the stages after checking that they are in a list or tuple."""
    if not isinstance(value, (list, tuple, type(None))):
        raise TypeError(
            f"computational_stages must be a list or tuple of functions. Received: {value!r}"
        )
    return value or []


def _count(value: Any) -> int:
    """Returns the number of mini-batches, which the number of steps of a run depends on."""
    count = pipeline_arguments.mini_batch_count(value)
    if not isinstance(count, int):
        raise ValueError(
            "gradient_accumulation_count of an IPUPipelineEstimatorSpec must be known when the "
            f"model is built, as iterations_per_loop is a multiple of it. Received: {count!r}"
        )
    return count


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"`{name}` must be a function. Received: {value!r}")
    return value


def _hooks(name: str, hooks: Iterable[Any] | None) -> tuple[Any, ...]:
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, tf.estimator.SessionRunHook):
            raise TypeError(
                f"All entries of `{name}` must be tf.estimator.SessionRunHook. Received: {hook!r}"
            )
    return found


# --- Metrics of estimators: from the program on the device to the host ---

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
