"""Stage functions of a pipeline, made from the layer calls of a model."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import layer_lines
from tensorflow_ipu.keras_layers.pipelining.layer_calls import (
    LayerCall,
    ModelCalls,
    StageTensor,
    input_tensors,
)

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


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
