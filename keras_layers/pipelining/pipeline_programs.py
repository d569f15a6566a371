"""Training, evaluation and prediction of a Keras model as a pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.feeds.ipu_infeed_queue import feed_of
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import model_state, partial_batches
from tensorflow_ipu.keras_layers.optimizers import gradient_accumulation
from tensorflow_ipu.keras_layers.pipelining import listing, model_types, validation
from tensorflow_ipu.keras_layers.pipelining.stages import Finish, StageFunctions
from tensorflow_ipu.ops import internal_ops, pipelining_ops

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

__all__ = ["check", "evaluate", "predict", "train"]


# --- Checks ---

# Methods that a pipeline has no place for, by the method that a user calls.
_NOT_CALLED = {"fit": (), "evaluate": ("test_step",), "predict": ("predict_step",)}


def check(model: IPUModel, mode: str) -> None:
    """Raises if a pipelined model cannot run.

    Args:
        model: a pipelined model.
        mode: the method called: "fit", "evaluate" or "predict".

    Raises:
        RuntimeError: If its class overrides what stages are made of; if a stage has no layer; or
            if the layers of a subclass of `Model` are not known.
        ValueError: If a layer has no stage; if stages are in an order that is not possible; if
            there is no number of mini-batches for an update.
    """
    for name in _NOT_CALLED[mode]:
        if getattr(type(model), name) is not getattr(tf.keras.Model, name):
            raise RuntimeError(
                f"The function `{name}` for the model {model.name} has been overridden. {mode}() "
                "does not call it for a pipelined model, which runs stage by stage. Remove it, or "
                "create the strategy with IPUStrategy(enable_keras_extensions=False) for plain "
                "Keras."
            )
    validation.checked_calls(model)
    if not (listing.is_functional(model) or listing.is_sequential(model)):
        model_types.check_mode(model, training=mode == "fit")
    options = model._ipu_options
    if mode == "fit" and options.pipelining_gradient_accumulation_steps_per_replica is None:
        raise ValueError(
            f"The pipelined model {model.name} needs the number of mini-batches for an update. Set "
            "it with model.set_pipelining_options(gradient_accumulation_steps_per_replica=...)."
        )


# --- Moving statistics ---

batch_normalization = keras2.module("layers.normalization.batch_normalization")


@contextlib.contextmanager
def kept(model: IPUModel) -> Iterator[None]:
    """Keeps the moving means and variances of a model's layers unchanged; a context.

    In a pipeline a mini-batch is in each stage forward and backward at different times, and only
    the optimizer changes variables.

    Args:
        model: a Keras model.

    Yields:
        Nothing.
    """
    layers = [layer for layer in model._flatten_layers() if _has_statistics(layer)]
    moving = [layer.name for layer in layers if 0 < layer.momentum < 1]
    if moving and not model_state.of(model).warned:
        model_state.of(model).warned = True
        tf.compat.v1.logging.warn(
            "The moving statistics for keras.BatchNormalization layers in pipelined models are not "
            "properly updated when training: those of %s in the model %s stay as they are, and "
            "evaluate() and predict() use the ones that the model started with.",
            ", ".join(moving),
            model.name,
        )
    for layer in layers:
        # Hides the method. Not an attribute as Keras knows them, so nothing tracks it.
        vars(layer)["add_update"] = _ignore
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["add_update"]


def _has_statistics(layer: Any) -> bool:
    return isinstance(layer, batch_normalization.BatchNormalizationBase) and layer.trainable


def _ignore(*_: Any, **__: Any) -> None:
    """Takes the place of `Layer.add_update`."""


# --- Programs ---


def train(
    model: IPUModel, infeed: Any, outfeed: Any, steps: int, sizes: Sequence[int] = ()
) -> tuple[tf.Operation, Any]:
    """Adds a pipeline that trains a model to the function being traced.

    Args:
        model: a pipelined model, compiled.
        infeed: gives what Keras calls the data of a step.
        outfeed: gets loss and metrics: after each mini-batch, or with `accumulate_outfeed` once for
            each update, as they are at its end.
        steps: Mini-batches: a multiple of those for an update.
        sizes: the numbers of real rows that mini-batches have, if they are padded: the infeed then
            gives pairs of data and marks (see `padding.Batches`).

    Returns:
        The operation that runs it, and the form of what the outfeed gets at once: a dict with
        loss and metrics by name, whose leaves are enqueued flattened.
    """
    _build(model, infeed, bool(sizes))
    options = model._ipu_options
    # `check` refuses a model without such a number.
    count = options.pipelining_gradient_accumulation_steps_per_replica or 1
    variables = model.trainable_variables
    gradient_accumulation.make_variables(model.optimizer, variables)
    results = _Results(count if options.pipelining_accumulate_outfeed else None)
    losses: list[tf.Tensor] = []

    def finish(*arguments: Any) -> Any:
        loss, logs = _loss_and_logs(model, sizes, True, *arguments)
        losses[:] = [loss]
        if sizes:
            partial_batches.warn_of_whole_batches(model, stages.adding_layers())
        return results.sent(_of_any_batch(model, results, sizes, arguments[-1], logs))

    def optimizer_function(*_: Any) -> pipelining_ops.OptimizerFunctionOutput:
        # The loss is not among the results of the last stage, which are all sent to the host.
        (loss,) = losses
        return pipelining_ops.OptimizerFunctionOutput(model.optimizer, loss, variables=variables)

    stages = _stages(model, True, finish, marked=bool(sizes))
    with kept(model):
        operation = pipelining_ops.pipeline(
            stages.functions(),
            count,
            repeat_count=steps // count,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimizer_function,
            accumulate_outfeed=bool(options.pipelining_accumulate_outfeed),
            reduction_method=options.gradient_accumulation_reduction_method,
            **_arguments(model),
        )
    return operation, results.form


def evaluate(
    model: IPUModel, infeed: Any, outfeed: Any, steps: int, sizes: Sequence[int] = ()
) -> tuple[tf.Operation, Any]:
    """Adds a pipeline that evaluates a model; see `train`.

    With `accumulate_outfeed` the outfeed gets loss and metrics once, at the end of all steps.
    """
    _build(model, infeed, bool(sizes))
    accumulates = bool(model._ipu_options.pipelining_accumulate_outfeed)
    results = _Results(steps if accumulates else None)

    def finish(*arguments: Any) -> Any:
        if sizes:
            _check_no_losses_of_batches(model, stages.adding_layers())
        _, logs = _loss_and_logs(model, sizes, False, *arguments)
        return results.sent(_of_any_batch(model, results, sizes, arguments[-1], logs))

    stages = _stages(model, False, finish, marked=bool(sizes))
    operation = pipelining_ops.pipeline(
        stages.functions(),
        steps,
        infeed_queue=infeed,
        outfeed_queue=outfeed,
        accumulate_outfeed=accumulates,
        **_arguments(model),
    )
    return operation, results.form


def predict(model: IPUModel, infeed: Any, outfeed: Any, steps: int) -> tuple[tf.Operation, Any]:
    """Adds a pipeline that predicts with a model; see `train`.

    The outfeed gets the outputs of the model for each mini-batch.
    """
    _build(model, infeed)
    results = _Results(None)

    def finish(*arguments: Any) -> Any:
        return results.sent(arguments[3])

    operation = pipelining_ops.pipeline(
        _stages(model, False, finish, keeps_y=False).functions(),
        steps,
        infeed_queue=infeed,
        outfeed_queue=outfeed,
        **_arguments(model),
    )
    return operation, results.form


class _Results:
    """Results that the last stage sends to the host.

    Attributes:
        form: Its structure, once the last stage has been built.
        added_up: Mini-batches whose values the outfeed adds up; None if it does not.
    """

    def __init__(self, added_up: int | None) -> None:
        """Makes it.

        Args:
            added_up: Mini-batches whose values the outfeed adds up; None if it does not.
        """
        self.form: Any = None
        self.added_up = added_up

    def sent(self, results: Any) -> list[tf.Tensor]:
        """Returns results as the last stage returns them."""
        self.form = tf.nest.map_structure(lambda _: 0, results)
        flat = [tf.convert_to_tensor(value) for value in tf.nest.flatten(results)]
        if self.added_up is None:
            return flat
        # Metrics hold all mini-batches so far: the values of the last one are those to report.
        last = tf.equal(internal_ops.get_current_iteration_counter(), self.added_up - 1)
        return [tf.where(last, value, tf.zeros_like(value)) for value in flat]


def _loss_and_logs(
    model: IPUModel,
    sizes: Sequence[int],
    training: bool,
    x: Any,
    y: Any,
    sample_weight: Any,
    y_pred: Any,
    layer_losses: list[Any],
    marks: list[tf.Tensor],
) -> tuple[tf.Tensor, Any]:
    """Computes loss and logs of a mini-batch in the last stage."""
    if sizes:
        batch = (x, y, sample_weight)
        return partial_batches.loss_and_logs(
            model, sizes, marks, batch, y_pred, layer_losses, training
        )
    with model_state.layer_losses(model, layer_losses):
        loss = model.compute_loss(x, y, y_pred, sample_weight)
    if training:
        model._validate_target_and_loss(y, loss)
    return loss, model.compute_metrics(x, y, y_pred, sample_weight)


def _of_any_batch(
    model: IPUModel, results: _Results, sizes: Sequence[int], marks: list[tf.Tensor], logs: Any
) -> Any:
    """Returns logs that are as of now, where the last of several mini-batches may be padding."""
    if results.added_up is None or not sizes or sizes[-1] > 0:
        return logs
    now = model.get_metrics_result()
    if not isinstance(logs, dict) or logs.keys() != now.keys():
        raise ValueError(
            f"compute_metrics() of the model {model.name} returns other values than its metrics "
            f"have, {sorted(now)}, so with accumulate_outfeed there is nothing to report where the "
            f"last mini-batches of an update are padding. Received: {logs!r}"
        )
    is_padding = tf.equal(marks[0], len(sizes) - 1)
    return {name: tf.where(is_padding, now[name], value) for name, value in logs.items()}


def _check_no_losses_of_batches(model: IPUModel, names: Sequence[str]) -> None:
    """Raises if rows of padding would count in losses and metrics that layers add."""
    if names:
        raise ValueError(
            "The data have a partial batch, or fewer batches than executions take, which a "
            f"pipeline pads. In the model {model.name} the padding would count in what "
            f"{', '.join(dict.fromkeys(names))} adds: losses or metrics of a batch. Use data that "
            "fill all batches and executions, or evaluate the model without its stages: "
            "reset_pipeline_stage_assignment()."
        )


def _stages(
    model: IPUModel, training: bool, finish: Finish, keeps_y: bool = True, marked: bool = False
) -> StageFunctions:
    """Returns the stages of a model."""
    # What is overridden may use the inputs, which Keras's own functions do not.
    stock = tf.keras.Model
    keeps_x = keeps_y and (
        type(model).compute_loss is not stock.compute_loss
        or type(model).compute_metrics is not stock.compute_metrics
    )
    calls = validation.checked_calls(model)
    return StageFunctions(model, calls, training, finish, keeps_x, keeps_y, marked)


def _arguments(model: IPUModel) -> dict[str, Any]:
    """Returns the user's arguments of the pipeline itself."""
    options = model._ipu_options
    return {
        "device_mapping": options.pipelining_device_mapping,
        "gradient_accumulation_for_captured_grads": False,
        **options.pipelining_kwargs,
    }


def _build(model: IPUModel, infeed: Any, marked: bool = False) -> None:
    """Builds a Sequential model from the shapes of its data, as its first call would."""
    sequential: Any = model
    if not listing.is_sequential(model) or sequential._graph_initialized:
        return
    spec = feed_of(infeed).element_spec
    element = spec[0] if marked else spec
    x = tf.keras.utils.unpack_x_y_sample_weight(element)[0]
    (spec,) = tf.nest.flatten(x)
    # Not `build`: that does not take the type.
    sequential._build_graph_network_for_inferred_shape(spec.shape, spec.dtype)
