"""What a pipelined model must be when it is run."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining.checks import check
from tensorflow_ipu.keras_layers.pipelining.stage import PipelineStage
from tests.support.models import keras_pipelines
from tests.support.models.keras_pipelines import MODELS, dense, no_stage

MODES = ("fit", "evaluate", "predict")


def run(model: Any, mode: str) -> None:
    x, y = keras_pipelines.data(4)
    data = keras_pipelines.dataset(x) if mode == "predict" else keras_pipelines.dataset(x, y)
    getattr(model, mode)(data, verbose=0)


def ready(model: Any, count: int | None = 4, optimizer: Any = "sgd") -> Any:
    model.compile(optimizer, "mse", steps_per_execution=4)
    if count:
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=count)
    return model


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_without_stage_is_refused(mode: str) -> None:
    with keras_pipelines.strategy(2).scope():
        with PipelineStage(0):
            first = dense(3, 1)
        model = ready(tf.keras.Sequential([first, dense(3, 2)]))
        match = "All layers of a pipelined model must have an associated pipeline stage"
        with pytest.raises(ValueError, match=match):
            run(model, mode)


def test_a_nested_layer_without_stage_is_refused() -> None:
    with keras_pipelines.strategy(2).scope():
        inputs = tf.keras.Input((4,))
        with PipelineStage(0):
            x = dense(3, 1)(inputs)
        x = tf.keras.Sequential([dense(3, 2)])(x)
        model = ready(tf.keras.Model(inputs, x))
        with pytest.raises(ValueError, match="has not been assigned a pipeline stage"):
            run(model, "fit")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("numbers", [(0, 2), (1, 2)])
def test_a_stage_without_layer_is_refused(mode: str, numbers: tuple[int, int]) -> None:
    with keras_pipelines.strategy(4).scope():
        x = inputs = tf.keras.Input((4,))
        for stage in numbers:
            with PipelineStage(stage):
                x = dense(3, stage)(x)
        model = ready(tf.keras.Model(inputs, x))
        match = "All stages in a pipeline must have at lease one layer assigned to them"
        with pytest.raises(RuntimeError, match=match):
            run(model, mode)


def test_a_layer_before_what_it_depends_on_is_refused() -> None:
    with keras_pipelines.strategy(2).scope():
        x = inputs = tf.keras.Input((4,))
        for stage in (0, 1, 0):
            with PipelineStage(stage):
                x = dense(3, stage)(x)
        with pytest.raises(ValueError, match="which has not yet been executed"):
            run(ready(tf.keras.Model(inputs, x)), "fit")


def test_a_sequential_model_out_of_order_is_refused() -> None:
    with keras_pipelines.strategy(2).scope():
        made = []
        for stage in (0, 1, 0):
            with PipelineStage(stage):
                made.append(dense(3, stage))
        with pytest.raises(ValueError, match="Put it in stage 1 or 2"):
            run(ready(tf.keras.Sequential(made)), "predict")


@pytest.mark.parametrize(
    ("mode", "name"),
    [("evaluate", "test_step"), ("predict", "predict_step"), ("fit", "train_step")],
)
def test_overridden_steps_are_refused(mode: str, name: str) -> None:
    own = type("Own", (tf.keras.Sequential,), {name: lambda self, data: {"loss": data}})
    with keras_pipelines.strategy(4).scope():
        stock = MODELS["sequential"]()
        model = ready(own(stock.layers))
        with pytest.raises(RuntimeError, match=f"`{name}` .* has been overridden"):
            run(model, mode)
        for other in MODES:
            if other not in (mode, "fit"):
                check(model, other)


@pytest.mark.parametrize("set_by_hand", [False, True])
def test_a_call_of_its_own(set_by_hand: bool) -> None:
    class Own(tf.keras.Model):
        def call(self, inputs: Any, training: Any = None) -> Any:
            return super().call(inputs, training=training)

    with keras_pipelines.strategy(2).scope():
        stock = MODELS["functional"]()
        model = ready(Own(stock.input, stock.output))
        if set_by_hand:
            model.set_pipeline_stage_assignment(model.get_pipeline_stage_assignment())
        for mode in MODES:
            with pytest.raises(RuntimeError, match="`call` .* has been overridden"):
                run(model, mode)


@pytest.mark.parametrize("base", [tf.keras.optimizers.SGD, tf.keras.optimizers.legacy.SGD])
def test_an_optimizer_with_its_own_minimize_is_refused(base: Any) -> None:
    own = type("Own", (base,), {"minimize": lambda self, *args: None})
    with keras_pipelines.strategy(2).scope():
        model = ready(MODELS["functional"](), optimizer=own())
        match = "must not override OptimizerV2.minimize"
        with pytest.raises(ValueError, match=match):
            run(model, "fit")


def test_no_number_of_mini_batches() -> None:
    with keras_pipelines.strategy(2).scope():
        model = ready(MODELS["functional"](), count=None)
        with pytest.raises(ValueError, match="gradient_accumulation_steps_per_replica"):
            run(model, "fit")


def test_a_number_that_the_schedule_does_not_allow() -> None:
    with keras_pipelines.strategy(2).scope():
        model = ready(MODELS["functional"](), count=2)
        with pytest.raises(tf.errors.FailedPreconditionError, match="must be a multiple of"):
            run(model, "fit")


def test_fewer_ipus_than_stages_are_refused() -> None:
    with keras_pipelines.strategy(2).scope():
        model = ready(MODELS["sequential"]())
        with pytest.raises(ValueError, match="the current model requires a multiple of 4"):
            run(model, "predict")


def test_a_subclass_with_other_layers_in_training_is_refused() -> None:
    class Changing(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            with PipelineStage(0):
                self.first = dense(3, 1)
            with PipelineStage(1):
                self.noise = tf.keras.layers.GaussianNoise(1.0)
                self.last = dense(3, 2)

        def call(self, inputs: Any, training: bool = False) -> Any:
            x = self.first(inputs)
            if training:
                x = self.noise(x)
            return self.last(x)

    with keras_pipelines.strategy(2).scope():
        model = Changing()
        model.build((2, 4))
        ready(model)
        with pytest.raises(ValueError, match="calls other layers with training=True"):
            run(model, "fit")
        run(model, "predict")


def test_data_that_are_not_the_inputs() -> None:
    with keras_pipelines.strategy(2).scope():
        model = ready(MODELS["functional"]())
        x, y = keras_pipelines.data(4)
        data = keras_pipelines.dataset({"p": x, "q": x}, y)
        with pytest.raises(ValueError, match="Layer functional expects 1 input"):
            with pytest.warns(UserWarning, match="keys"):
                model.fit(data, verbose=0)


def test_a_model_without_stages_needs_none_of_that() -> None:
    with keras_pipelines.strategy(1).scope():
        model = MODELS["functional"](no_stage)
        model.compile("sgd", "mse")
        run(model, "fit")
        assert model.optimizer.iterations.numpy() > 0
