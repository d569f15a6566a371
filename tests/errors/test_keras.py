"""Errors and warnings of Keras on the IPU: the phrases that programs and forum answers quote."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.platform import tf_logging

from tensorflow_ipu import serving
from tensorflow_ipu.keras_layers import optimizers
from tensorflow_ipu.keras_layers.layers import capture
from tensorflow_ipu.keras_layers.models import model_options
from tensorflow_ipu.keras_layers.pipelining import assignment
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tests.support.models import keras_models, keras_pipelines
from tests.support.models.keras_pipelines import MODELS, OUTPUTS, dense

pytestmark = keras_models.KERAS_WARNINGS

STEPS = "gradient_accumulation_steps_per_replica"
LENGTH = (
    r"The length of the provided `pipeline_stage_assignment` \({}\) does not match the number of "
    r"layers in the graph \({}\)\."
)


class Row(NamedTuple):
    """A call, its exception and text; `phrase` is a regular expression."""

    name: str
    exception: type[BaseException]
    phrase: str
    provoke: Callable[[], Any]
    ipus: int = 2


def _data(batches: int = 4) -> tf.data.Dataset:
    return keras_pipelines.dataset(*keras_pipelines.data(batches))


def _compiled(model: Any, steps: int = 4) -> Any:
    model.compile("sgd", "mse", steps_per_execution=steps)
    return model


def _accumulating(kind: str) -> None:
    model = _compiled(keras_pipelines.functional(keras_pipelines.no_stage))
    if kind == "pipelined":
        model = _compiled(MODELS["functional"]())
        model.set_pipelining_options(3)
    else:
        model.set_gradient_accumulation_options(3)
    model.fit(_data(8), verbose=0)


def _pipelining(**options: Any) -> None:
    keras_pipelines.sequential().set_pipelining_options(**options)


def _assign(kind: str, change: Callable[[list[Any]], Any]) -> None:
    model = MODELS[kind]()
    model.set_pipeline_stage_assignment(change(model.get_pipeline_stage_assignment()))


def _changed(index: int, stage: Any) -> Callable[[list[Any]], list[Any]]:
    """Returns a function that moves one layer to another stage."""

    def change(elements: list[Any]) -> list[Any]:
        list(assignment.layer_elements(elements))[index].pipeline_stage = stage
        return elements

    return change


def _foreign(elements: list[Any]) -> list[Any]:
    other = assignment.SequentialLayerPipelineStageAssignment(tf.keras.layers.ReLU(), 0)
    return [*elements[:-1], other]


def _without_gaps(stages: tuple[int, ...]) -> None:
    x = inputs = tf.keras.Input((4,))
    for stage in stages:
        with PipelineStage(stage):
            x = dense(OUTPUTS, stage)(x)
    _compiled(tf.keras.Model(inputs, x)).fit(_data(), verbose=0)


def _partly() -> Any:
    inputs = tf.keras.Input((4,))
    with PipelineStage(0):
        x = dense(3, 1)(inputs)
    return tf.keras.Model(inputs, dense(3, 2, name="outside")(x))


def _partly_sequential() -> None:
    with PipelineStage(0):
        first = dense(3, 1)
    _compiled(tf.keras.Sequential([first, dense(OUTPUTS, 2, name="outside")])).predict(
        _data().map(lambda x, y: x), verbose=0
    )


def _too_few_inputs() -> None:
    x, y = keras_pipelines.data(4)
    inputs = [tf.keras.Input((4,)), tf.keras.Input((4,))]
    with PipelineStage(0):
        total = tf.keras.layers.Add()(inputs)
    with PipelineStage(1):
        outputs = dense(OUTPUTS, 1)(total)
    model = _compiled(tf.keras.Model(inputs, outputs, name="two"))
    model.set_pipelining_options(4)
    model.fit(keras_pipelines.dataset(x, y), verbose=0)


def _no_call(method: str) -> None:
    model = _compiled(type("NoCall", (tf.keras.Model,), {})(name="empty"))
    argument = (2, 4) if method == "build" else _data()
    getattr(model, method)(argument)


def _own_call() -> None:
    class Own(tf.keras.Model):
        def call(self, inputs: Any) -> Any:
            return super().call(inputs)

    stock = MODELS["functional"]()
    model = _compiled(Own(stock.input, stock.output, name="own"))
    model.set_pipeline_stage_assignment(model.get_pipeline_stage_assignment())
    model.fit(_data(), verbose=0)


def _own_minimize(pipelined: bool) -> None:
    own = type("Own", (tf.keras.optimizers.SGD,), {"minimize": lambda self, *args: None})
    model = MODELS["functional"]() if pipelined else keras_models.functional()
    model.compile(own(), "mse", steps_per_execution=4)
    (model.set_pipelining_options if pipelined else model.set_gradient_accumulation_options)(4)
    data = _data() if pipelined else keras_models.dataset().take(4)
    model.fit(data, verbose=0)


def _v2_option() -> None:
    model = keras_models.functional()
    model.compile(tf.compat.v1.train.GradientDescentOptimizer(0.1), "mse", steps_per_execution=2)
    model.set_gradient_accumulation_options(2, use_v2_gradient_accumulation_optimizer=True)
    model.fit(keras_models.X, keras_models.Y, keras_models.BATCH, verbose=0)


def _partial_batch() -> None:
    _compiled(keras_models.functional(), 1).fit(keras_models.X, keras_models.Y, 5, verbose=0)


def _infinite(method: str) -> None:
    data = keras_models.dataset(epochs=None)
    getattr(_compiled(keras_models.functional(), 1), method)(data, verbose=0)


def _shared_on_two_ipus() -> None:
    model = _compiled(keras_pipelines.shared())
    model.set_pipelining_options(4)
    model.fit(_data(), verbose=0)


def _als(**settings: Any) -> None:
    optimizers.ALSOptimizer(tf.keras.optimizers.SGD(), **settings)


_NAMES = ("computational_stages", "repeat_count", "inputs", "infeed_queue", "outfeed_queue")
_INCOMPATIBLE = ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations")
_NOT_DIVISIBLE = (
    r"model has been configured to use gradient accumulation for training, however the current "
    rf"`steps_per_execution` value \(set to 4\) is not divisible by `{STEPS}` \(3\)"
)
_ALL_ASSIGNED = (
    "All layers of a pipelined model must have an associated pipeline stage. However, outside has "
    "not been assigned to one."
)

ROWS = [
    Row("accumulation", RuntimeError, f"The {_NOT_DIVISIBLE}", lambda: _accumulating("plain"), 1),
    Row(
        "accumulation, pipelined",
        RuntimeError,
        f"The pipelined {_NOT_DIVISIBLE}",
        lambda: _accumulating("pipelined"),
    ),
    Row(
        "steps for an update",
        ValueError,
        f"Expected `{STEPS}` to be a positive integer, but got -1 instead",
        lambda: _pipelining(**{STEPS: -1}),
    ),
    *(
        Row(
            f"pipelining_kwargs {name}",
            ValueError,
            f"Found `{name}` key in `pipelining_kwargs`. This argument is {why}",
            lambda name=name: _pipelining(**{name: None}),
        )
        for names, why in (
            ((*_NAMES, "optimizer_function"), "automatically set by Keras"),
            (_INCOMPATIBLE, "not compatible with Keras"),
        )
        for name in names
    ),
    *(
        Row(
            f"length {kind}",
            ValueError,
            LENGTH.format(r"\d+", r"\d+"),
            lambda kind=kind: _assign(kind, lambda elements: elements[:-1]),
        )
        for kind in ("functional", "subclass", "sequential")
    ),
    Row(
        "length sequential, ints",
        ValueError,
        LENGTH.format(2, 4),
        lambda: _assign("sequential", lambda _: [0, 1]),
    ),
    *(
        Row(
            f"order {kind}",
            ValueError,
            "The order of `pipeline_stage_assignment` does not match the post-order generated from "
            "the graph",
            lambda kind=kind: _assign(kind, lambda e: [e[1], e[0], *e[2:]]),
        )
        for kind in ("functional", "subclass")
    ),
    Row(
        "class functional",
        ValueError,
        r"The pipeline stage assignment for layer sum in functional must be an instance of "
        "`FunctionalLayerPipelineStageAssignment`.",
        lambda: _assign("functional", _foreign),
    ),
    Row(
        "class nested",
        ValueError,
        r"The pipeline stage assignment for nested model middle in nested must be an instance of "
        "`FunctionalNestedModelPipelineStageAssignment`.",
        lambda: _assign("nested", lambda elements: [elements[2], *elements[1:]]),
    ),
    Row(
        "class subclass",
        ValueError,
        r"The pipeline stage assignment for layer \S+ in subclass must be an instance of "
        "`ModelLayerPipelineStageAssignment`.",
        lambda: _assign("subclass", _foreign),
    ),
    *(
        Row(
            f"None {kind}",
            ValueError,
            "Layer a with node_index 0 has not been assigned a pipeline stage in "
            "`pipeline_stage_assignment`.",
            lambda kind=kind: _assign(kind, _changed(0, None)),
        )
        for kind in ("functional", "subclass")
    ),
    *(
        Row(
            f"dependency {kind} {stage}",
            ValueError,
            rf"Layer \S+ in pipeline stage {found} has a dependency from a pipeline stage which "
            "has not yet been executed",
            lambda kind=kind, stage=stage: _assign(kind, _changed(0, stage)),
        )
        for kind in ("functional", "subclass")
        for stage, found in ((2, "[01]"), (-1, "-1"))
    ),
    Row(
        "stages with gaps",
        RuntimeError,
        "All stages in a pipeline must have at lease one layer assigned to them. The highest stage "
        r"with an assignment is stage 3, however the preceeding stages \[1, 2\] had no "
        "assignments.",
        lambda: _without_gaps((0, 3)),
        4,
    ),
    Row("left out", ValueError, _ALL_ASSIGNED, _partly),
    Row("left out, sequential", ValueError, _ALL_ASSIGNED, _partly_sequential),
    Row(
        "class sequential",
        ValueError,
        "All elements of `pipeline_stage_assignment` must be instances of "
        "`SequentialLayerPipelineStageAssignment` for layers",
        lambda: _assign("sequential", lambda elements: [*elements[:-1], "2"]),
    ),
    Row(
        "layer sequential",
        ValueError,
        r"The provided assignment at index 0 `pipeline_stage_assignment` is for layer \S+, but the "
        "layer in the Sequential model at index 0 is a",
        lambda: _assign("sequential", lambda e: [e[1], e[0], *e[2:]]),
    ),
    Row(
        "first stage sequential",
        ValueError,
        "The first layer in a pipelined sequential model needs to be assigned to the 0th pipeline "
        "stage, however it was assigned to 1.",
        lambda: _assign("sequential", lambda _: [1, 1, 1, 2]),
    ),
    Row(
        "jump sequential",
        ValueError,
        "Layer c has been assigned to pipeline stage 2, however the previous layer in the "
        "Sequential model was assigned to pipeline stage 0. A layer in a Sequential model can only "
        "be assigned to the same pipeline stage as the previous layer or to the next pipeline "
        "stage.",
        lambda: _assign("sequential", lambda _: [0, 0, 0, 2]),
    ),
    *(
        Row(
            f"{doing} of a model that is not built",
            RuntimeError,
            f"Cannot {doing} pipeline stage assignments for model `subclass` which has not been "
            "built yet",
            lambda doing=doing: getattr(
                keras_pipelines.Subclass(PipelineStage), f"{doing}_pipeline_stage_assignment"
            )(*([[]] if doing == "set" else [])),
        )
        for doing in ("get", "set")
    ),
    Row(
        "too few inputs",
        ValueError,
        r"Layer two expects 2 input\(s\), but it received 1 input tensors. Inputs received: ",
        _too_few_inputs,
    ),
    *(
        Row(
            f"no call, {method}",
            RuntimeError,
            "The function `call` for the model empty has not been implemented",
            lambda method=method: _no_call(method),
        )
        for method in ("fit", "evaluate", "predict", "build")
    ),
    Row(
        "own call",
        RuntimeError,
        "The function `call` for the model own has been overridden",
        _own_call,
    ),
    *(
        Row(
            f"own minimize {pipelined}",
            ValueError,
            "must not override OptimizerV2.minimize",
            lambda pipelined=pipelined: _own_minimize(pipelined),
        )
        for pipelined in (False, True)
    ),
    Row(
        "v2 accumulation with an optimizer of TensorFlow 1",
        ValueError,
        "may only be set to True when an OptimizerV2 derived optimizer is used",
        _v2_option,
    ),
    Row(
        "partial batch", ValueError, "The provided set of data has a partial batch", _partial_batch
    ),
    *(
        Row(
            f"infinite dataset, {method}",
            ValueError,
            "When providing an infinite dataset, you must specify the number of steps to run",
            lambda method=method: _infinite(method),
        )
        for method in ("fit", "evaluate", "predict")
    ),
    Row(
        "one layer on two IPUs",
        ValueError,
        "an input can only be used by pipeline stages on the same IPU",
        _shared_on_two_ipus,
    ),
    Row(
        "CaptureActivationGradients",
        ValueError,
        "Layer addition does not use an activation function",
        lambda: capture.CaptureActivationGradients(tf.keras.layers.Add(name="addition")),
    ),
    Row(
        "ALS update_frequency",
        ValueError,
        "update_frequency must be nonzero and positive",
        lambda: _als(update_frequency=0),
    ),
    Row(
        "ALS ratio_threshold",
        ValueError,
        "ratio_threshold must be greater than zero and less than one",
        lambda: _als(ratio_threshold=1),
    ),
    Row(
        "ALS initial factor",
        ValueError,
        "initial_loss_scaling_factor x increase_factor must be less than max_loss_scaling_factor",
        lambda: _als(initial_loss_scaling_factor=16384),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_errors_of_keras_models_have_phrase_of_original(row: Row) -> None:
    with keras_pipelines.strategy(row.ipus).scope(), pytest.raises(row.exception, match=row.phrase):
        row.provoke()


@pytest.mark.parametrize(
    "name", ["device_mapping", "accumulate_outfeed", "gradient_accumulation_count"]
)
def test_arguments_with_place_of_their_own_are_refused(name: str) -> None:
    """The first two reach the further arguments by way of a subclass's setter only."""
    instead = STEPS if name == "gradient_accumulation_count" else name
    phrase = (
        f"Found `{name}` key in `pipelining_kwargs`. Set the `{instead}` argument to "
        "`set_pipelining_options` instead."
    )
    with pytest.raises(ValueError, match=re.escape(phrase)):
        model_options.checked_kwargs("pipelining_kwargs", {name: 1})


def test_a_model_from_outside_the_scope_is_refused(tmp_path: Any) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    with pytest.raises(ValueError, match="was not created inside an IPU strategy"):
        serving.export_keras(model, tmp_path, batch_size=2)


class NotFromTheParents(tf.keras.Model):
    """Has a configuration of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = tf.keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        """Calls its layer."""
        return self.layer(x)

    def get_config(self) -> dict[str, Any]:
        """Returns nothing."""
        return {}

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Makes one."""
        return cls()


def test_model_with_configuration_of_its_own_is_refused(tmp_path: Any) -> None:
    phrase = r"get_config\(\) has been overridden on a subclassed Model"
    with keras_pipelines.strategy(1).scope():
        model = NotFromTheParents()
        model(tf.zeros([2, 3]))
        model.save(tmp_path / "model")
        custom = {"NotFromTheParents": NotFromTheParents}
        with pytest.raises(RuntimeError, match=phrase):
            tf.keras.models.load_model(tmp_path / "model", custom_objects=custom)


@pytest.mark.parametrize("momentum", [0.99, 0.0, 1.0])
def test_moving_statistics_not_updated_are_warned_about(
    momentum: float, caplog: pytest.LogCaptureFixture
) -> None:
    with keras_pipelines.strategy(2).scope():
        with PipelineStage(0):
            norm = tf.keras.layers.BatchNormalization(momentum=momentum)
        with PipelineStage(1):
            last = dense(OUTPUTS, 2)
        model = _compiled(tf.keras.Sequential([norm, last]))
        model.set_pipelining_options(4)
        with mock.patch.object(tf.compat.v1.logging, "warn", wraps=tf_logging.warn) as warn:
            model.fit(_data(), verbose=0)
    phrase = (
        "The moving statistics for keras.BatchNormalization layers in pipelined models are not "
        "properly updated when training"
    )
    said = [record for record in caplog.records if record.getMessage().startswith(phrase)]
    assert [record.name for record in said] == (["tensorflow"] if 0 < momentum < 1 else [])
    # Programs replace this function to hear of it.
    assert len(said) == warn.call_count
    assert np.isfinite(model.get_weights()[0]).all()
