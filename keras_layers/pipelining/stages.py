"""Makes the stage functions of a pipeline from the layer calls of a model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.keras_layers import layer_lines
from tensorflow_ipu.keras_layers.pipelining.layer_calls import (
    LayerCall,
    ModelCalls,
    StageTensor,
    input_tensors,
)
from tensorflow_ipu.keras_layers.pipelining.losses import LayerLosses
from tensorflow_ipu.keras_layers.pipelining.metrics import LayerMetrics
from tensorflow_ipu.versions import keras2

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


# What the last stage makes of a mini-batch: takes its data, the outputs of the model, what layers
# have added to the loss, and the marks of the mini-batch.
Finish = Callable[[Any, Any, Any, Any, list[tf.Tensor], list[tf.Tensor]], Any]


class StageFunctions:
    """Takes a mini-batch through a model, stage by stage.

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
        """Plans which stage needs what.

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
        """Builds a stage and returns what it passes on."""
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
