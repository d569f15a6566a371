"""Results of pipelined models, against stock Keras on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import cache
from tensorflow_ipu.keras_layers import model_state
from tensorflow_ipu.keras_layers.pipelining.pipeline_programs import check
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tensorflow_ipu.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from tests.support.models import keras_pipelines
from tests.support.models.keras_pipelines import MODELS, OUTPUTS, batches_of, dense, no_stage

# --- Checks of pipelined models ---

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


def test_layer_before_what_it_depends_on_is_refused() -> None:
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


def test_subclass_with_other_layers_in_training_is_refused() -> None:
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


# --- Results of stock Keras on the CPU ---

layers = tf.keras.layers


legacy = tf.keras.optimizers.legacy


# Stages of each model, and IPUs that it needs.
STAGES = {"functional": 2, "sequential": 3, "subclass": 2, "nested": 3}


IPUS = {"functional": 2, "sequential": 4, "subclass": 2, "nested": 4}


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.1),
    "momentum": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9),  # that of most tests
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
    "legacy_momentum": lambda: legacy.SGD(0.05, momentum=0.9),
    "legacy_adam": lambda: legacy.Adam(0.01),
    "tensorflow_1": lambda: tf.compat.v1.train.MomentumOptimizer(0.05, 0.9),
}


def compiled(model: tf.keras.Model, optimizer: str = "momentum", steps: int = 1) -> Any:
    model.compile(OPTIMIZERS[optimizer](), "mse", metrics=["mae"], steps_per_execution=steps)
    return model


def close(actual: Any, expected: Any) -> None:
    ours, plain = tf.nest.flatten(actual), [*tf.nest.flatten(expected)]
    assert len(ours) == len(plain)
    for index, (one, other) in enumerate(zip(ours, plain)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=f"value {index}")


def check_training(
    make: Callable[..., tf.keras.Model],
    count: int,
    ipus: int,
    optimizer: str = "momentum",
    replicas: int = 1,
    factor: float = 1.0,
    **options: Any,
) -> tf.keras.Model:
    """Trains for two updates in each of two epochs, and compares with stock Keras."""
    x, y = keras_pipelines.data(2 * count * replicas)
    plain = compiled(make(no_stage), optimizer)
    losses = keras_pipelines.trained(plain, batches_of(x, y) * 2, count * replicas, factor)
    with keras_pipelines.strategy(ipus * replicas).scope():
        # What replicas other than the first know of metrics is gone with an execution.
        model = compiled(make(), optimizer, count if replicas == 1 else 2 * count)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=count, **options)
        model.set_replication_options(replicated_metric_reduction_method="mean")
        history = model.fit(keras_pipelines.dataset(x, y), epochs=2, verbose=0).history
    close(model.get_weights(), plain.get_weights())
    close(history["loss"], list(np.reshape(losses, [2, -1]).mean(1)))
    return model


@pytest.mark.parametrize("kind", MODELS)
def test_trains_evaluates_and_predicts(kind: str) -> None:
    count = 2 * STAGES[kind]
    x, y = keras_pipelines.data(2 * count)
    model = check_training(MODELS[kind], count, IPUS[kind])
    (executable,) = cache.executables()
    assert len(executable.pipeline.stages) == STAGES[kind]
    plain = compiled(MODELS[kind](no_stage))
    plain.predict(x[:2], verbose=0)
    plain.set_weights(model.get_weights())
    with model.distribute_strategy.scope():
        data = keras_pipelines.dataset(x, y)
        ours = model.evaluate(data, return_dict=True, verbose=0)
        predictions = model.predict(keras_pipelines.dataset(x), verbose=0)
    close(ours, plain.evaluate(x, y, keras_pipelines.BATCH, return_dict=True, verbose=0))
    close(predictions, plain.predict(x, keras_pipelines.BATCH, verbose=0))


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS.keys() - {"momentum"}))
def test_all_optimizers_train_a_pipeline(optimizer: str) -> None:
    check_training(MODELS["functional"], 4, 2, optimizer)


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_all_schedules_train_a_pipeline(schedule: PipelineSchedule) -> None:
    check_training(MODELS["functional"], 4, 2, "adam", pipeline_schedule=schedule)
    (executable,) = cache.executables()
    assert executable.pipeline.schedule.description.schedule is schedule


@pytest.mark.parametrize("kind", ["functional", "subclass"])
def test_replicas_add_their_gradients(kind: str) -> None:
    check_training(MODELS[kind], 4, 2, replicas=2)
    assert [executable.replicas for executable in cache.executables()] == [2]


@pytest.mark.parametrize("method", ["mean", "running_mean"])
def test_means_over_mini_batches_train_a_pipeline(method: str) -> None:
    check_training(
        MODELS["functional"], 4, 2, factor=0.25, gradient_accumulation_reduction_method=method
    )


def test_replicas_train_with_an_optimizer_of_tensorflow_1() -> None:
    check_training(MODELS["functional"], 4, 2, "tensorflow_1", replicas=2)


def test_one_mini_batch_is_an_update() -> None:
    schedule = PipelineSchedule.Sequential
    check_training(MODELS["functional"], 1, 2, pipeline_schedule=schedule)


def test_stages_run_on_the_mapped_ipus() -> None:
    model = check_training(MODELS["functional"], 4, 2, device_mapping=[1, 0])
    assert model._pipeline_ipus() == 2
    (executable,) = cache.executables()
    matmuls = [op for op in executable.ops if op.type == "MatMul"]
    assert {(op.stage, op.ipu) for op in matmuls} == {(0, 1), (1, 0)}


def test_a_layer_in_two_stages_of_one_ipu() -> None:
    check_training(keras_pipelines.shared, 4, 1, device_mapping=[0, 0])


def test_a_layer_in_two_stages_of_two_ipus() -> None:
    with pytest.raises(ValueError, match="use the same variable"):
        check_training(keras_pipelines.shared, 4, 2)


def test_an_assignment_that_was_set_trains() -> None:
    def make(stage: Any = PipelineStage) -> tf.keras.Model:
        model = MODELS["sequential"](no_stage)
        if stage is PipelineStage:
            model.set_pipeline_stage_assignment([0, 0, 1, 1])
        return model

    check_training(make, 4, 2)


@pytest.mark.parametrize("per_execution", [4, 8])
def test_an_accumulated_outfeed_gives_the_same_logs(per_execution: int) -> None:
    x, y = keras_pipelines.data(8)
    ends: list[dict[str, float]] = []
    hook = tf.keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: ends.append(dict(logs)),
        on_test_batch_end=lambda _, logs: ends.append(dict(logs)),
    )
    with keras_pipelines.strategy(2).scope():
        model = compiled(MODELS["functional"](), "sgd", 1)
        model.optimizer.learning_rate.assign(0.0)
        model._steps_per_execution.assign(per_execution)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=4, accumulate_outfeed=True
        )
        data = keras_pipelines.dataset(x, y)
        model.fit(data, verbose=0, callbacks=[hook])
        model.evaluate(data, verbose=0, callbacks=[hook])
    plain = compiled(MODELS["functional"](no_stage))
    losses = [plain.evaluate(a, b, verbose=0)[0] for a, b in batches_of(x, y)]
    # The metric is the mean since the start of the epoch, here at the end of an execution.
    running = np.cumsum(losses) / np.arange(1, 9)
    training = testing = running[per_execution - 1 :: per_execution]
    close([end["loss"] for end in ends], [*training, *testing])


def test_sample_weights_and_several_outputs_equal_stock_keras() -> None:
    def make(stage: Any = PipelineStage) -> tf.keras.Model:
        first, second = layers.Input((4,), name="first"), layers.Input((4,), name="second")
        with stage(0):
            x = dense(5, 1, name="left")(first)
        with stage(1):
            late = dense(OUTPUTS, 2, name="late")(layers.Concatenate(name="both")([x, second]))
        return tf.keras.Model({"a": first, "b": second}, {"early": x, "late": late})

    def compiled_here(model: Any) -> Any:
        losses = {"early": "mae", "late": "mse"}
        model.compile("sgd", losses, loss_weights={"early": 0.3}, weighted_metrics=["mse"])
        return model

    generator = np.random.default_rng(0)
    x = {name: generator.normal(size=(8, 4)).astype(np.float32) for name in "ab"}
    sizes = {"early": 5, "late": OUTPUTS}
    y = {name: generator.normal(size=(8, size)).astype(np.float32) for name, size in sizes.items()}
    weights = {name: generator.random(8).astype(np.float32) for name in sizes}
    plain = compiled_here(make(no_stage))
    parts = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(2)
    keras_pipelines.trained(plain, list(parts), 4)
    with keras_pipelines.strategy(2).scope():
        model = compiled_here(make())
        model._steps_per_execution.assign(4)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        data = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(2, drop_remainder=True)
        model.fit(data, verbose=0)
        only_x = tf.data.Dataset.from_tensor_slices(x).batch(2, drop_remainder=True)
        predictions = model.predict(only_x, verbose=0)
        found = model.evaluate(data, return_dict=True, verbose=0)
    close(model.get_weights(), plain.get_weights())
    close(predictions, plain.predict(parts, verbose=0))
    assert found.keys() == plain.evaluate(parts, return_dict=True, verbose=0).keys()
    close(found, plain.evaluate(parts, return_dict=True, verbose=0))


def test_masks_go_on_to_later_stages() -> None:
    def make(stage: Any = PipelineStage) -> tf.keras.Model:
        inputs = layers.Input((5,), dtype=tf.int32)
        initializer = tf.keras.initializers.RandomUniform(seed=1)
        with stage(0):
            x = layers.Embedding(7, 4, initializer, mask_zero=True)(inputs)
        with stage(1):
            x = dense(3, 2)(layers.GlobalAveragePooling1D()(x))
        return tf.keras.Model(inputs, x)

    x = np.random.default_rng(2).integers(0, 3, (8, 5)).astype(np.int32)
    y = np.ones((8, 3), np.float32)
    plain = compiled(make(no_stage))
    keras_pipelines.trained(plain, batches_of(x, y), 4)
    with keras_pipelines.strategy(2).scope():
        model = compiled(make(), steps=4)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.fit(keras_pipelines.dataset(x, y), verbose=0)
    close(model.get_weights(), plain.get_weights())


def test_moving_statistics_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    with keras_pipelines.strategy(2).scope():
        with PipelineStage(0):
            first = [dense(4, 1), layers.BatchNormalization(name="norm")]
        with PipelineStage(1):
            second = [dense(OUTPUTS, 2)]
        model = compiled(tf.keras.Sequential([*first, *second]), steps=4)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.fit(keras_pipelines.dataset(*keras_pipelines.data(4)), epochs=2, verbose=0)
    norm = model.get_layer("norm")
    assert not np.any(norm.moving_mean) and np.all(norm.moving_variance == 1)
    assert np.any(norm.beta)
    assert caplog.text.count("The moving statistics for keras.BatchNormalization layers") == 1
    assert "those of norm in the model" in caplog.text
    assert "add_update" not in vars(norm)


def test_the_loss_of_the_model_itself_is_used() -> None:
    class WithLoss(tf.keras.Model):
        def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
            total = tf.reduce_mean((y - y_pred) ** 2) + tf.reduce_mean(x)
            return total + tf.add_n(self.losses)

    def make(stage: Any = PipelineStage) -> tf.keras.Model:
        stock = MODELS["functional"](stage)
        model = WithLoss(stock.input, stock.output)
        kernel = model.get_layer("a").kernel
        model.add_loss(lambda: 0.1 * tf.reduce_sum(kernel**2))
        with stage(1):
            model.add_loss(tf.reduce_mean(model.get_layer("c").output))
        return model

    x, y = keras_pipelines.data(4)
    plain = compiled(make(no_stage))
    keras_pipelines.trained(plain, batches_of(x, y), 4)
    with keras_pipelines.strategy(2).scope():
        model = compiled(make(), steps=4)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.fit(keras_pipelines.dataset(x, y), verbose=0)
        assert model_state.of(model).losses is None
    close(model.get_weights(), plain.get_weights())


def test_metrics_of_layers_in_earlier_stages_are_read() -> None:
    class Watching(layers.Layer):
        def call(self, inputs: Any) -> Any:
            self.add_metric(tf.reduce_sum(inputs), name="watched")
            return inputs * 1.0

    def make(stage: Any = PipelineStage) -> tf.keras.Model:
        inputs = layers.Input((4,))
        with stage(0):
            x = a = dense(5, 1)(inputs)
            x = Watching()(x)
        with stage(1):
            model = tf.keras.Model(inputs, dense(OUTPUTS, 2)(x))
        with stage(0):
            model.add_metric(tf.reduce_mean(a), name="mean")
        return model

    x, y = keras_pipelines.data(4)
    with keras_pipelines.strategy(2).scope():
        found = compiled(make(), steps=4).evaluate(
            keras_pipelines.dataset(x, y), verbose=0, return_dict=True
        )
    plain = compiled(make(no_stage)).evaluate(x, y, 2, verbose=0, return_dict=True)
    assert found.keys() == plain.keys() >= {"loss", "mae", "watched", "mean"}
    close(found, plain)


def test_training_reaches_layers_of_nested_models() -> None:
    class Recording(layers.Layer):
        seen: list[Any] = []

        def call(self, inputs: Any, training: Any = None) -> Any:
            self.seen.append((self.name, training))
            return inputs * 1.0

    with keras_pipelines.strategy(2).scope():
        with PipelineStage(0):
            frozen = tf.keras.Sequential([dense(3, 1), Recording(name="frozen")])
        inputs = layers.Input((4,))
        x = frozen(inputs, training=False)
        with PipelineStage(1):
            x = Recording(name="free")(dense(OUTPUTS, 2)(x))
        model = compiled(tf.keras.Model(inputs, x), steps=4)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        data = keras_pipelines.dataset(*keras_pipelines.data(4))
        for run, training in ((model.fit, True), (model.evaluate, False)):
            Recording.seen.clear()
            run(data, verbose=0)
            assert set(Recording.seen) == {("frozen", False), ("free", training)}


def test_loss_scaling_and_mixed_precision_equal_stock_keras() -> None:
    def make(stage: Any = PipelineStage) -> tf.keras.Model:
        with stage(0):
            first = [dense(6, 1, dtype="mixed_float16")]
        with stage(1):
            second = [dense(OUTPUTS, 2, dtype="float32")]
        return tf.keras.Sequential([*first, *second])

    def compiled_here(model: Any) -> Any:
        inner = tf.keras.optimizers.SGD(0.1)
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
            inner, dynamic=False, initial_scale=64
        )
        model.compile(optimizer, "mse", steps_per_execution=4)
        return model

    x, y = keras_pipelines.data(4)
    plain = compiled(make(no_stage), "sgd")
    keras_pipelines.trained(plain, batches_of(x, y), 4)
    with keras_pipelines.strategy(2).scope():
        model = compiled_here(make())
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.fit(keras_pipelines.dataset(x, y), verbose=0)
    for ours, plain_weight in zip(model.get_weights(), plain.get_weights()):
        np.testing.assert_allclose(ours, plain_weight, rtol=5e-3, atol=1e-3)


def test_recomputation_and_names_go_to_the_pipeline() -> None:
    check_training(
        MODELS["functional"],
        4,
        2,
        recomputation_mode=RecomputationMode.Auto,
        name="mine",
    )
    (executable,) = cache.executables()
    assert executable.pipeline.name == "mine"
