"""Training, evaluation and prediction of a Keras model as a pipeline, and its stage functions."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.feeds.ipu_infeed_queue import feed_of
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import layer_lines, model_state, partial_batches
from tensorflow_ipu.keras_layers.optimizers import gradient_accumulation
from tensorflow_ipu.keras_layers.pipelining import listing, model_types, validation
from tensorflow_ipu.keras_layers.pipelining.layer_calls import (
    LayerCall,
    ModelCalls,
    StageTensor,
    input_tensors,
)
from tensorflow_ipu.ops import internal_ops, pipelining_ops

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

__all__ = ["check", "evaluate", "predict", "train"]


# --- Losses that layers add ---

base_layer_utils = keras2.module("engine.base_layer_utils")


class LayerLosses:
    """Losses that layers add, by stage, as `model.losses` has them in stock Keras.

    Attributes:
        adding: Names of the layers that have added losses of a mini-batch.
    """

    def __init__(self, model: IPUModel, calls: ModelCalls) -> None:
        """Finds the stages of losses that are functions of variables, such as regularizers.

        Args:
            model: the model.
            calls: its calls.
        """
        self.adding: list[str] = []
        self._layers = list(model._flatten_layers())
        home = _homes(calls)
        self._functions: dict[int, list[Callable[[], Any]]] = {}
        for layer in self._layers:
            for function in layer._callable_losses:
                # One of variables that no stage uses is as good in the last stage as in another.
                stages = [home[key] for key in _handles(function) if key in home]
                stage = max(stages, default=calls.stages - 1)
                self._functions.setdefault(stage, []).append(function)

    def clear(self) -> None:
        """Forgets losses of tensors that layers have added."""
        for layer in self._layers:
            layer._clear_losses()

    def take(self, stage: int) -> list[tf.Tensor]:
        """Returns the losses of a stage that has just been built.

        Args:
            stage: the stage.
        """
        placeholder = base_layer_utils.REVIVED_LOSS_PLACEHOLDER
        taken = [
            loss
            for layer in self._layers
            for loss in layer._eager_losses
            if loss is not placeholder
        ]
        self.adding += [layer.name for layer in self._layers if layer._eager_losses]
        self.clear()
        found = [function() for function in self._functions.get(stage, ())]
        return taken + [loss for loss in found if loss is not None]


def _homes(calls: ModelCalls) -> dict[int, int]:
    """Returns the first stage that uses a variable, by `id` of its handle."""
    home: dict[int, int] = {}
    for call in calls.calls:
        weights: Sequence[Any] = [] if call.layer is None else call.layer.weights
        for variable in weights:
            home.setdefault(id(variable.handle), call.stage)
    return home


def _handles(function: Callable[[], Any]) -> list[int]:
    """Returns which variables a function uses, by `id` of their handles."""
    with tf.init_scope():
        graph = tf.__internal__.FuncGraph("loss")
        with graph.as_default():
            function()
    return [id(captured) for captured in graph.external_captures]


# --- Metrics that layers add ---


class LayerMetrics:
    """Results of `Layer.add_metric`, on their way to the stage that reports them.

    The variables of such a metric are on the IPU of its layer, and the last stage may be on
    another one.

    Attributes:
        adding: Names of the layers that have such metrics.
    """

    def __init__(self, calls: ModelCalls) -> None:
        """Remembers the layers of each stage.

        Args:
            calls: the calls of the model.
        """
        self.adding: list[str] = []
        self._layers: list[list[Any]] = [[] for _ in range(calls.stages)]
        for call in calls.calls:
            if call.layer is not None:
                self._layers[call.stage].extend(call.layer._flatten_layers())
        self._taken: dict[int, Any] = {}

    def take(self, stage: int) -> list[Any]:
        """Returns the results of the metrics of a stage that has just been built.

        Args:
            stage: the stage.
        """
        self.adding += [layer.name for layer in self._layers[stage] if layer._metrics]
        found = {id(metric): metric for layer in self._layers[stage] for metric in layer._metrics}
        new = {key: metric for key, metric in found.items() if key not in self._taken}
        self._taken.update(new)
        return [metric.result() for metric in new.values()]

    @contextlib.contextmanager
    def reported(self, results: Sequence[Any]) -> Iterator[None]:
        """Sets the results of the metrics, in their order; a context.

        Args:
            results: the result of `take` for all stages, passed on.

        Yields:
            Nothing.
        """
        with contextlib.ExitStack() as stack:
            for metric, result in zip(self._taken.values(), results):
                stack.enter_context(_with_result(metric, result))
            yield


@contextlib.contextmanager
def _with_result(metric: Any, result: Any) -> Iterator[None]:
    # Metrics have `result` as an attribute each, which wraps the method of their class.
    original = vars(metric)["result"]
    vars(metric)["result"] = lambda: result
    try:
        yield
    finally:
        vars(metric)["result"] = original


# --- Stage functions ---

# What the last stage makes of a mini-batch: takes its data, the outputs of the model, what layers
# have added to the loss, and the marks of the mini-batch.
Finish = Callable[[Any, Any, Any, Any, list[tf.Tensor], list[tf.Tensor]], Any]


class StageFunctions:
    """Stage functions that take a mini-batch through a model.

    A stage gets, as one flat list: the values that it or a later stage needs, losses and metrics
    of layers in the stages before, and of the mini-batch's data those that the last stage needs.
    """

    def __init__(
        self,
        model: IPUModel,
        calls: ModelCalls,
        training: bool,
        finish: Finish,
        keeps_x: bool,
        keeps_y: bool,
        marked: bool = False,
    ) -> None:
        """Plans the tensors that each stage needs.

        Args:
            model: the model.
            calls: its calls.
            training: value of `training` for its layers.
            finish: returns what the last stage returns. Takes `x` (None unless `keeps_x`), `y`,
                `sample_weight`, the outputs of the model, the losses of its layers and the marks.
            keeps_x: whether the last stage needs `x`.
            keeps_y: whether it needs `y` and `sample_weight`.
            marked: whether mini-batches come with marks: see `padding.Batches`.
        """
        self._model = model
        self._calls = calls
        self._training = training
        self._finish = finish
        self._keeps_x = keeps_x
        self._keeps_y = keeps_y
        self._marked = marked
        self._losses = LayerLosses(model, calls)
        self._metrics = LayerMetrics(calls)
        self._last = calls.stages - 1
        self._arriving = _arriving(calls)
        # Structure of what the stage that was built last passes on, besides values.
        self._form: Any = None

    def functions(self) -> list[Callable[..., Any]]:
        """Returns the function of each stage, to be called in this order."""
        return [self._function(stage) for stage in range(self._last + 1)]

    def adding_layers(self) -> list[str]:
        """Returns the names of layers that add losses or metrics of a mini-batch.

        They are known once the stages have been built.
        """
        own = [self._model.name] if self._calls.losses else []
        return [*self._losses.adding, *self._metrics.adding, *own]

    def _function(self, stage: int) -> Callable[..., Any]:
        def run_stage(*args: Any, **kwargs: Any) -> Any:
            if stage == 0:
                values, passed = self._enter(args, kwargs)
            else:
                arriving = self._arriving[stage]
                values = dict(zip(arriving, args))
                passed = tf.nest.pack_sequence_as(self._form, args[len(arriving) :])
            return self._run(stage, values, *passed)

        run_stage.__name__ = f"stage_{stage}"
        return run_stage

    def _enter(self, args: Any, kwargs: Any) -> tuple[dict[StageTensor, Any], Any]:
        """Takes in the data of a mini-batch."""
        marks: tuple[Any, ...] = ()
        # An element that is one dict, the inputs by name, comes as keyword arguments.
        element = kwargs or tuple(args)
        if self._marked:
            element, marks = args
        x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(element)
        inputs = self._calls.inputs
        tensors = input_tensors(self._model, x)
        if len(tensors) != len(inputs):
            raise ValueError(
                f"Layer {self._model.name} expects {len(inputs)} input(s), but it received "
                f"{len(tensors)} input tensors. Inputs received: {x!r}. The data of a pipelined "
                "model have one tensor for each of its inputs."
            )
        # The first three are lists of one or none.
        kept = (
            [x] if self._keeps_x else [],
            [y] if self._keeps_y and y is not None else [],
            [sample_weight] if self._keeps_y and sample_weight is not None else [],
            list(marks),
        )
        return dict(zip(inputs, tensors)), ([], [], kept)

    def _run(
        self,
        stage: int,
        values: dict[StageTensor, Any],
        losses: list[Any],
        metrics: list[Any],
        data: Any,
    ) -> Any:
        """Builds a stage and returns the values for the next."""
        self._losses.clear()
        for call in self._calls.calls:
            if call.stage == stage:
                self._call(call, values)
        losses = losses + self._losses.take(stage)
        if stage < self._last:
            passed = (losses, metrics + self._metrics.take(stage), data)
            self._form = tf.nest.map_structure(lambda _: 0, passed)
            going = [values[value] for value in self._arriving[stage + 1]]
            return [*going, *tf.nest.flatten(passed)]
        losses += [values[value] for value in self._calls.losses]
        outputs = tf.nest.map_structure(values.__getitem__, self._calls.outputs)
        *batch, marks = data
        x, y, sample_weight = (part[0] if part else None for part in batch)
        with self._metrics.reported(metrics):
            return self._finish(x, y, sample_weight, outputs, losses, marks)

    def _call(self, call: LayerCall, values: dict[StageTensor, Any]) -> None:
        """Calls a layer as its model would."""
        args, kwargs = tf.nest.map_structure(
            lambda one: values[one] if isinstance(one, StageTensor) else _constant(one),
            (call.args, call.kwargs),
        )
        training = self._training if call.training is None else call.training
        with keras2.call_of(self._model, args, training):
            if call.layer is not None:
                layer_lines.expect(call.layer, call.node)
            outputs = call.function(*args, **kwargs)
        values.update(zip(call.outputs, tf.nest.flatten(outputs)))


def _arriving(calls: ModelCalls) -> list[list[StageTensor]]:
    """Returns for each stage the values of earlier ones that it or a later one needs."""
    last = calls.stages - 1
    until: dict[StageTensor, int] = {}
    made: Iterable[StageTensor] = itertools.chain(
        calls.inputs, *(call.outputs for call in calls.calls)
    )
    ends = [*tf.nest.flatten(calls.outputs), *calls.losses]
    for call in calls.calls:
        until.update((value, call.stage) for value in call.inputs())
    until.update((value, last) for value in ends)
    values = list(dict.fromkeys(made))
    return [
        [value for value in values if value.stage < stage <= until.get(value, -1)]
        for stage in range(last + 1)
    ]


def _constant(value: Any) -> Any:
    """Returns an eager tensor as a value that the stage makes itself."""
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy"):
        return tf.constant(value.numpy(), value.dtype)
    return value


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
