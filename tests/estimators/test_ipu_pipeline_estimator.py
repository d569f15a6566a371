"""Pipelined estimators against plain sessions and NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models as models
from tests.support.models import pipelines

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys
IPUPipelineEstimator = ipu.ipu_pipeline_estimator.IPUPipelineEstimator
Spec = ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec
Schedule = ipu.pipelining_ops.PipelineSchedule
DATA = 16  # mini-batches


def dataset(mini_batches: int = DATA) -> tf.data.Dataset:
    """Returns (features, labels), once."""
    slices = tf.data.Dataset.from_tensor_slices(pipelines.data(mini_batches))
    return slices.batch(pipelines.BATCH, drop_remainder=True)


def repeated() -> tf.data.Dataset:
    return dataset().repeat()


def features_only(mini_batches: int = DATA) -> tf.data.Dataset:
    return dataset(mini_batches).map(lambda x, y: x)


def optimizer_function(
    loss: tf.Tensor, name: str = "sgd", reduced: bool = True
) -> ipu.pipelining_ops.OptimizerFunctionOutput:
    optimizer = pipelines.optimizer(name)
    if reduced:
        optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(optimizer)
    return ipu.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)


def first(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return pipelines.layer(pipelines.layer(x, 0), 1), labels


def logits_of(x: tf.Tensor) -> tf.Tensor:
    return pipelines.layer(pipelines.layer(x, 2), 3)


def forward(x: tf.Tensor) -> tf.Tensor:
    return pipelines.layer(pipelines.layer(x, 0), 1)


def metrics_fn(loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, Any]:
    """Takes stacked tensors: [L, (R), ...]."""
    return {
        "loss": tf.reduce_mean(loss),
        "accuracy": tf1.metrics.accuracy(labels, tf.argmax(logits, -1, tf.int32)),
        "logits": tf1.metrics.mean(logits),
    }


def model_fn(mode: str, params: dict[str, Any]) -> Any:
    """The model of tests/support/models/pipelines.py, with `params` as arguments of its spec."""
    arguments: dict[str, Any] = {"gradient_accumulation_count": 4, **params}
    stages: list[Any] = [forward, logits_of]
    if mode == ModeKeys.TRAIN:
        stages = pipelines.stages(arguments.pop("stages", 2))
        name = arguments.pop("optimizer", "sgd")
        arguments.setdefault("optimizer_function", functools.partial(optimizer_function, name=name))
    if mode == ModeKeys.EVAL:

        def last(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
            logits = logits_of(x)
            return pipelines.loss_of(logits, labels), logits, labels

        stages = [first, last]
        arguments.setdefault("eval_metrics_fn", metrics_fn)
    return Spec(mode, arguments.pop("computational_stages", stages), **arguments)


def estimator(
    iterations: int = 4,
    replicas: int = 1,
    shards: int = 2,
    model: Any = model_fn,
    params: Any = None,
    **kwargs: Any,
) -> Any:
    config = models.run_config(iterations, replicas, shards, **kwargs.pop("config", {}))
    return IPUPipelineEstimator(model, config=config, params=params or {}, **kwargs)


def weights(trained: Any) -> dict[str, np.ndarray]:
    names = [name for name in trained.get_variable_names() if name.startswith("w")]
    return {name: trained.get_variable_value(name) for name in names}


def assert_trained_like(trained: Any, want: pipelines.Outcome) -> None:
    got = {name: trained.get_variable_value(name) for name in want.weights}
    pipelines.assert_same_weights(pipelines.Outcome(None, got), want)


def logits(mini_batches: int, w: dict[str, np.ndarray] | None = None) -> np.ndarray:
    """Returns the predictions with NumPy: [mini-batches, batch, classes]."""
    hidden = pipelines.data(mini_batches)[0]
    for index in range(4):
        weight = pipelines.initial(index) if w is None else w[f"w{index}"]
        hidden = hidden @ weight
        hidden = hidden if index == 3 else np.tanh(hidden)
    return hidden.reshape(mini_batches, pipelines.BATCH, -1)


# ---- training


@pytest.mark.parametrize(
    ("replicas", "iterations", "stages", "optimizer", "schedule"),
    [
        (1, 4, 2, "sgd", None),
        (2, 4, 2, "momentum", Schedule.Grouped),
        (1, 8, 2, "adam", Schedule.Interleaved),
        (2, 8, 2, "rmsprop", Schedule.Sequential),
        (1, 8, 4, "sgd", Schedule.Interleaved),
    ],
)
def test_trains_like_a_plain_session(
    replicas: int, iterations: int, stages: int, optimizer: str, schedule: Any
) -> None:
    """Weights, losses and the global step."""
    executions = 16 // (4 * replicas)
    params = {"stages": stages, "optimizer": optimizer, "pipeline_schedule": schedule}
    trained = estimator(iterations, replicas, stages, params=params)
    losses = models.Losses()
    trained.train(repeated, steps=16 // replicas, hooks=[losses])
    want = pipelines.expected(4, executions, optimizer, replicas)
    assert_trained_like(trained, want)
    per_run = want.outfeed.reshape(-1, iterations * replicas).mean(axis=1)
    np.testing.assert_allclose(losses.values, per_run, rtol=1e-5)
    assert trained.get_variable_value("global_step") == 16 // replicas


@pytest.mark.parametrize(("method", "scale"), [("MEAN", 0.25), ("running_mean", 0.25)])
def test_reduction_methods_scale_the_update(method: str, scale: float) -> None:
    trained = estimator(8, params={"reduction_method": method})
    trained.train(repeated, steps=16)
    assert_trained_like(trained, pipelines.expected(4, 4, scale=scale))


def test_training_goes_on_from_the_last_checkpoint() -> None:
    """From the last checkpoint, with another estimator, up to max_steps."""
    trained = estimator(4)
    trained.train(repeated, steps=8)
    again = estimator(4, model_dir=trained.model_dir)
    again.train(lambda: dataset().skip(8).repeat(), max_steps=15)
    assert_trained_like(again, pipelines.expected(4, 4))
    assert again.get_variable_value("global_step") == 16


def test_a_warm_start_takes_the_weights() -> None:
    trained = estimator(4)
    trained.train(repeated, steps=4)
    warm = estimator(4, warm_start_from=trained.latest_checkpoint())
    predictions = list(warm.predict(lambda: features_only(4)))
    np.testing.assert_allclose(
        np.reshape(predictions, (4, 2, 3)), logits(4, weights(trained)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("dtype", [None, tf.float32])
def test_the_loss_accumulates_in_the_type_asked_for(dtype: Any) -> None:
    """The sum of losses of 30000 is beyond float16."""

    def last(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.cast(pipelines.loss_of(logits_of(x), labels) * 0.0 + 30000.0, tf.float16)

    params = {"computational_stages": [first, last], "loss_accumulator_dtype": dtype}
    losses = models.Losses()
    estimator(4, params=params).train(repeated, steps=4, hooks=[losses])
    assert (losses.values == [30000.0]) == (dtype is not None)


def test_batch_serialization_makes_more_mini_batches() -> None:
    """A run is still iterations_per_loop mini-batches, and the loss is of one of them."""
    params = {"gradient_accumulation_count": 2, "batch_serialization_iterations": 2}
    trained = estimator(16, shards=1, params=params)
    losses = models.Losses()
    trained.train(repeated, steps=16, hooks=[losses])
    want = pipelines.expected(4, 4)
    assert_trained_like(trained, want)
    np.testing.assert_allclose(losses.values, [want.outfeed.mean()], rtol=1e-5)


def test_stages_are_mapped_to_devices() -> None:
    """Four stages on two IPUs, and arguments that only the pipeline knows."""
    params = {
        "stages": 4,
        "device_mapping": [0, 1, 1, 0],
        "gradient_accumulation_count": 8,
        "gradient_accumulation_dtype": tf.float32,
        "recomputation_mode": ipu.pipelining_ops.RecomputationMode.Auto,
        "name": "mine",
    }
    trained = estimator(8, params=params)
    trained.train(repeated, steps=16)
    assert_trained_like(trained, pipelines.expected(8, 2))


def test_dict_elements_are_keyword_arguments() -> None:
    def by_name(mode: str) -> Any:
        def stage(x: tf.Tensor, *, labels: tf.Tensor) -> Any:
            return first(x, labels)

        return Spec(mode, [stage, pipelines.stages(2)[1]], 4, optimizer_function=optimizer_function)

    trained = IPUPipelineEstimator(by_name, config=models.run_config(16, shards=2))
    trained.train(lambda: repeated().map(lambda x, y: {"labels": y, "x": x}), steps=16)
    assert_trained_like(trained, pipelines.expected(4, 4))


def test_model_fn_gets_what_it_takes() -> None:
    seen: dict[str, Any] = {}

    def takes_all(mode: str, params: Any, config: Any) -> Any:
        seen.update(mode=mode, params=params, config=config)
        return model_fn(mode, {})

    made = estimator(4, model=takes_all, params={"a": 1})
    made.train(repeated, steps=4)
    assert (seen["mode"], seen["params"]) == (ModeKeys.TRAIN, {"a": 1})
    assert seen["config"].ipu_run_config.iterations_per_loop == 4
    assert list(made.predict(features_only))
    assert seen["mode"] == ModeKeys.PREDICT


def test_hooks_of_the_model_run_in_their_mode() -> None:
    """Run once for each run of the session, in the mode that they are for."""
    counts = dict.fromkeys(("training", "evaluation", "prediction"), 0)

    class Counting(tf1.train.SessionRunHook):
        def __init__(self, mode: str) -> None:
            self._mode = mode

        def after_run(self, run_context: Any, run_values: Any) -> None:
            counts[self._mode] += 1

    hooks = {f"{mode}_hooks": [Counting(mode)] for mode in counts}
    made = estimator(4, params=hooks)
    made.train(repeated, steps=8)
    made.evaluate(repeated, steps=12)
    assert counts == {"training": 2, "evaluation": 3, "prediction": 0}
    assert len(list(made.predict(lambda: features_only().repeat(), num_predictions=8))) == 8
    assert counts == {"training": 2, "evaluation": 3, "prediction": 1}


def test_end_of_data_is_an_error_when_training() -> None:
    with pytest.raises(tf.errors.OutOfRangeError, match="Infeed dataset iterator out of range"):
        estimator(4).train(lambda: dataset(6), steps=8)


# ---- evaluation


@pytest.mark.parametrize("replicas", [1, 2])
def test_evaluates_like_numpy(replicas: int) -> None:
    made = estimator(4, replicas)
    result = made.evaluate(repeated, steps=16 // replicas)
    x = logits(DATA).astype(np.float64)
    labels = pipelines.data(DATA)[1].reshape(DATA, pipelines.BATCH)
    chosen = np.take_along_axis(x, labels[..., None], -1)[..., 0]
    want = {
        "loss": np.mean(np.log(np.exp(x).sum(-1)) - chosen),
        "accuracy": np.mean(x.argmax(-1) == labels),
        "logits": x.mean(),
        "global_step": 0,
    }
    assert result.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(result[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("replicas", [1, 2])
def test_evaluation_gets_outputs_by_name_and_stacked(replicas: int) -> None:
    shapes: dict[str, Any] = {}

    def by_name(*, labels: tf.Tensor, losses: tf.Tensor) -> dict[str, Any]:
        shapes.update(labels=labels.shape.as_list(), losses=losses.shape.as_list())
        return {"loss": losses}  # one for each mini-batch, which are averaged

    def last(x: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"losses": pipelines.loss_of(logits_of(x), labels), "labels": labels}

    params = {"computational_stages": [first, last], "eval_metrics_fn": by_name}
    made = estimator(4, replicas, params=params)
    loss = made.evaluate(repeated, steps=4)["loss"]
    leading = [4] if replicas == 1 else [4, 2]
    assert shapes == {"labels": [*leading, pipelines.BATCH], "losses": leading}
    want = estimator(4, replicas).evaluate(repeated, steps=4)["loss"]
    np.testing.assert_allclose(loss, want, rtol=1e-6)


def test_a_single_output_is_evaluated_after_training() -> None:
    def last(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return pipelines.loss_of(logits_of(x), labels)

    def mean_loss(losses: tf.Tensor) -> dict[str, Any]:
        return {"loss": tf.reduce_mean(losses), "worst": tf1.metrics.mean(tf.reduce_max(losses))}

    made = estimator(
        4, params={"computational_stages": [first, last], "eval_metrics_fn": mean_loss}
    )
    before = made.evaluate(repeated, steps=16)
    made.train(repeated, steps=64)
    after = made.evaluate(repeated, steps=16)
    assert after["loss"] < before["loss"] < before["worst"]
    assert after["global_step"] == 64


# ---- prediction


@pytest.mark.parametrize("mini_batches", [8, 6, 3, 0])
def test_predicts_a_finite_dataset_to_its_end(mini_batches: int) -> None:
    predictions = list(estimator(4).predict(lambda: features_only(8).take(mini_batches)))
    assert len(predictions) == mini_batches * pipelines.BATCH
    if predictions:
        want = logits(8)[:mini_batches].reshape(-1, pipelines.CLASSES)
        np.testing.assert_allclose(predictions, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("single", [True, False])
def test_replicas_predict_their_own_batches(single: bool) -> None:
    """Items are the batches of replicas, or the predictions of all replicas in an iteration."""
    made = estimator(4, replicas=2)
    predictions = list(made.predict(features_only, yield_single_examples=single))
    want = logits(DATA)
    if not single:
        want = want.reshape(DATA // 2, 2, pipelines.BATCH, pipelines.CLASSES)
    np.testing.assert_allclose(predictions, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keys", [None, ["class"]])
def test_a_dict_of_predictions_is_split_by_example(keys: Any) -> None:
    def last(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"logits": logits_of(x), "class": tf.argmax(logits_of_again(x), -1, tf.int32)}

    def logits_of_again(x: tf.Tensor) -> tf.Tensor:
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=True):
            return logits_of(x)

    made = estimator(4, params={"computational_stages": [forward, last]})
    items = list(
        made.predict(lambda: features_only().repeat(), predict_keys=keys, num_predictions=5)
    )
    want = logits(3).reshape(-1, pipelines.CLASSES)[:5]
    assert [item.keys() for item in items] == [set(keys or ("logits", "class"))] * 5
    np.testing.assert_array_equal([item["class"] for item in items], want.argmax(-1))
    if keys is None:
        np.testing.assert_allclose([item["logits"] for item in items], want, rtol=1e-5, atol=1e-6)


def test_predicts_without_the_labels_of_the_dataset() -> None:
    """A first stage gets the features alone, or features and labels, as its signature says."""
    want = logits(4).reshape(-1, pipelines.CLASSES)
    got = list(estimator(4).predict(lambda: dataset(4)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    both = [first, lambda x, labels: {"logits": logits_of(x), "labels": labels}]
    items = list(estimator(4, params={"computational_stages": both}).predict(lambda: dataset(4)))
    np.testing.assert_allclose([item["logits"] for item in items], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal([item["labels"] for item in items], pipelines.data(4)[1])


def test_predictions_work_with_tensorflow_1_behavior(run_program: Any) -> None:
    """Where pipelines enqueue a single tensor as a list."""
    output = run_program(_TENSORFLOW_1).stdout
    assert "(8, 2) (2,) 28.0" in output


_TENSORFLOW_1 = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
from tensorflow.python import ipu
cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 2
run_config = ipu.ipu_run_config.RunConfig(
    ipu_run_config=ipu.ipu_run_config.IPURunConfig(4, cfg, num_shards=2))
def model_fn(mode):
    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
        mode, [lambda x: x * 1.0, lambda x: x * tf.get_variable("w", initializer=1.0)], 4,
        eval_metrics_fn=lambda x: {"loss": tf.reduce_sum(x)})
estimator = ipu.ipu_pipeline_estimator.IPUPipelineEstimator(model_fn, config=run_config)
data = np.arange(8, dtype=np.float32).reshape(4, 2)
def input_fn():
    return tf.data.Dataset.from_tensor_slices(np.stack([data, data], 1))
items = list(estimator.predict(input_fn))
print(np.shape(items), items[0].shape, estimator.evaluate(input_fn, steps=4)["loss"] / 2)
"""


# ---- export


def test_exports_a_saved_model() -> None:
    """The stages one after the other."""
    trained = estimator(4)
    trained.train(repeated, steps=4)

    def receiver() -> Any:
        x = tf1.placeholder(tf.float32, [None, pipelines.FEATURES])
        return tf.estimator.export.TensorServingInputReceiver(x, {"x": x})

    path = trained.export_saved_model(f"{trained.model_dir}/export", receiver)
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    (got,) = serve(x=tf.constant(pipelines.data(2)[0])).values()
    want = logits(2, weights(trained)).reshape(-1, pipelines.CLASSES)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_exports_stages_as_the_pipeline_has_them() -> None:
    """Python's conditions on tensors, tensors by name, inputs, parallel stages."""

    def by_name(scale: tf.Tensor, *, x: tf.Tensor) -> tf.Tensor:
        if tf.reduce_sum(x) > 0:
            y = x * scale
        else:
            y = -x
        return y

    def weighted(x: tf.Tensor) -> tf.Tensor:
        return x * tf1.get_variable("weight", initializer=1.0)

    def joined(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"x": x, "y": y}

    def model(mode: str) -> Any:
        stages = [by_name, [weighted, lambda x: x + 1.0], joined]
        mapping = [0, [0, 1], 1]
        return Spec(mode, stages, 6, device_mapping=mapping, inputs=[tf.constant(3.0)])

    def receiver() -> Any:
        x = tf1.placeholder(tf.float32, [2])
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    data = np.float32([[1, 2], [-1, -2], [3, 4]])
    made = IPUPipelineEstimator(model, config=models.run_config(6, shards=2))
    items = list(made.predict(lambda: tf.data.Dataset.from_tensor_slices({"x": data})))
    assert [item["x"] for item in items] == [3, 6, 1, 2, 9, 12]
    with tf.Graph().as_default(), tf1.Session() as session:
        step = tf1.train.create_global_step()
        weight = tf1.get_variable("weight", initializer=1.0, use_resource=True)
        session.run([step.initializer, weight.initializer])
        checkpoint = tf1.train.Saver().save(session, f"{made.model_dir}/model")
    path = made.export_saved_model(f"{made.model_dir}/x", receiver, checkpoint_path=checkpoint)
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    for batch, got in zip(data, np.reshape([list(item.values()) for item in items], (3, 2, 2))):
        served = serve(x=tf.constant(batch))
        np.testing.assert_array_equal(np.stack([served["x"], served["y"]], -1), got)


def test_all_modes_are_exported() -> None:
    trained = estimator(4)
    trained.train(repeated, steps=4)

    def receiver() -> Any:
        x = tf1.placeholder(tf.float32, [2, pipelines.FEATURES])
        y = tf1.placeholder(tf.int32, [2])
        return tf.estimator.experimental.build_raw_supervised_input_receiver_fn(x, y)()

    path = trained.experimental_export_all_saved_models(
        f"{trained.model_dir}/export", {ModeKeys.TRAIN: receiver, ModeKeys.EVAL: receiver}
    )
    with tf.Graph().as_default(), tf1.Session() as session:
        graph = tf1.saved_model.load(session, ["eval"], path)
        (signature,) = graph.signature_def.values()
        x, y = pipelines.data(1)
        feed = {signature.inputs["input"].name: x, signature.inputs["label"].name: y}
        loss = session.run(signature.outputs["loss"].name, feed)
    chosen = logits(1, weights(trained))[0]
    want = np.mean(np.log(np.exp(chosen).sum(-1)) - chosen[np.arange(2), y])
    np.testing.assert_allclose(loss, want, rtol=1e-5)


# ---- errors


STAGES = [forward, logits_of]


def _unknown() -> tf.Tensor:
    """Returns a number that is known only when a graph runs."""
    with tf.Graph().as_default():
        return tf1.placeholder(tf.int32, [])


@pytest.mark.parametrize(
    ("mode", "arguments", "error", "phrase"),
    [
        (ModeKeys.TRAIN, {}, ValueError, "`optimizer_function`"),
        (ModeKeys.EVAL, {}, ValueError, "`eval_metrics_fn`"),
        (
            ModeKeys.PREDICT,
            {"gradient_accumulation_count": None},
            ValueError,
            "gradient_accumulation_count must be specified",
        ),
        (ModeKeys.PREDICT, {"gradient_accumulation_count": 0}, ValueError, ">= 0, and not 0"),
        (
            ModeKeys.PREDICT,
            {"gradient_accumulation_count": _unknown()},
            ValueError,
            "must be known when the model is built",
        ),
        (ModeKeys.PREDICT, {"accumulate_outfeed": True}, ValueError, "accumulate_outfeed"),
        (ModeKeys.PREDICT, {"accumulate_outfeed": False}, ValueError, "accumulate_outfeed"),
        (ModeKeys.PREDICT, {"repeat_count": 2}, ValueError, "`repeat_count` cannot be passed"),
        (ModeKeys.PREDICT, {"infeed_queue": None}, ValueError, "`infeed_queue` cannot be passed"),
        (ModeKeys.PREDICT, {"reduction_method": "no"}, ValueError, "as one of GradientAcc"),
        (ModeKeys.PREDICT, {"optimizer_function": 1}, TypeError, "must be a function"),
        (ModeKeys.PREDICT, {"training_hooks": [1]}, TypeError, "SessionRunHook"),
        (ModeKeys.PREDICT, {"computational_stages": 1}, TypeError, "must be a list or tuple"),
        ("other", {}, ValueError, "ModeKeys"),
    ],
)
def test_wrong_specifications_are_refused(
    mode: str, arguments: dict[str, Any], error: type[Exception], phrase: str
) -> None:
    defaults = {"computational_stages": STAGES, "gradient_accumulation_count": 4}
    with pytest.raises(error, match=phrase):
        Spec(mode, **{**defaults, **arguments})


@pytest.mark.parametrize(
    ("model", "phrase"),
    [
        (lambda mode, extra: None, "also takes: extra"),
        (None, "model_fn must be provided"),
    ],
)
def test_wrong_model_functions_are_refused(model: Any, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        IPUPipelineEstimator(model, config=models.run_config())


def test_params_without_a_parameter_for_them_are_refused() -> None:
    with pytest.raises(ValueError, match="does not include params"):
        IPUPipelineEstimator(lambda mode: None, config=models.run_config(), params={"a": 1})
    with pytest.raises(ValueError, match="must be provided with type"):
        IPUPipelineEstimator(lambda mode: None, config=tf.estimator.RunConfig())
    with pytest.raises(TypeError, match="train_batch_size"):
        IPUPipelineEstimator(lambda mode: None, train_batch_size=4)


def test_wrong_result_of_the_model_function_is_refused() -> None:
    made = estimator(4, model=lambda mode, params: {"mode": mode})
    with pytest.raises(TypeError, match="must return `IPUPipelineEstimatorSpec`"):
        made.train(repeated, steps=4)


@pytest.mark.parametrize("mode", ["train", "evaluate", "predict"])
@pytest.mark.parametrize(("iterations", "count"), [(2, 4), (6, 4)])
def test_iterations_are_a_multiple_of_the_count(mode: str, iterations: int, count: int) -> None:
    made = estimator(iterations, params={"gradient_accumulation_count": count})
    steps = {} if mode == "predict" else {"steps": iterations}
    how = "cannot be less than" if iterations < count else "must be divisible by"
    with pytest.raises(ValueError, match=rf"\(got {iterations}\) {how} .*\(got {count}\)"):
        list(getattr(made, mode)(repeated, **steps))


@pytest.mark.parametrize(
    ("shards", "mapping"), [(1, None), (4, None), (2, [0, 0]), (4, [1, 0]), (1, [0, 1])]
)
def test_devices_go_with_num_shards(shards: int, mapping: Any) -> None:
    made = estimator(4, shards=shards, params={"device_mapping": mapping})
    with pytest.raises(ValueError, match="This pipeline requires"):
        made.train(repeated, steps=4)


@pytest.mark.parametrize(
    ("stages", "mapping", "shards", "devices"),
    [([], None, 1, 0), (None, [0, 1, 2, 3], 2, 4), (STAGES[:1], None, 4, 1)],
)
def test_devices_are_checked_before_the_stages(
    stages: Any, mapping: Any, shards: int, devices: int
) -> None:
    params = {"computational_stages": stages, "device_mapping": mapping}
    made = estimator(4, shards=shards, params=params)
    phrase = f"This pipeline requires {devices} devices, but `IPURunConfig.num_shards` was set to "
    with pytest.raises(ValueError, match=f"{phrase}{shards}"):
        made.train(repeated, steps=4)


def test_one_stage_is_refused() -> None:
    made = estimator(4, shards=1, params={"computational_stages": STAGES[:1]})
    with pytest.raises(ValueError, match="Pipeline requires at least two computational stages"):
        made.train(repeated, steps=4)


@pytest.mark.parametrize("method", ["train", "evaluate", "predict"])
@pytest.mark.parametrize(
    "model", [lambda features, mode: None, lambda labels, mode: None], ids=["features", "labels"]
)
def test_model_functions_for_data_are_refused(model: Any, method: str) -> None:
    made = IPUPipelineEstimator(model, config=models.run_config())
    with pytest.raises(ValueError, match="must not have `features` or `labels` arguments"):
        if method == "predict":
            next(made.predict(repeated))
        else:
            getattr(made, method)(repeated, steps=1)


def test_one_device_may_have_all_stages() -> None:
    trained = estimator(16, shards=1, params={"device_mapping": [0, 0]})
    trained.train(repeated, steps=16)
    assert_trained_like(trained, pipelines.expected(4, 4))


def test_replicas_have_to_agree() -> None:
    alone = functools.partial(optimizer_function, reduced=False)
    made = estimator(4, 2, params={"optimizer_function": alone})
    with pytest.raises(ValueError, match="This is not a valid replicated training graph"):
        made.train(repeated, steps=4)


def test_global_step_belongs_to_the_estimator() -> None:
    def advancing(loss: tf.Tensor) -> Any:
        return ipu.pipelining_ops.OptimizerFunctionOutput(
            pipelines.optimizer("sgd"),
            loss,
            apply_gradients_kwargs={"global_step": tf1.train.get_global_step()},
        )

    made = estimator(4, params={"optimizer_function": advancing})
    with pytest.raises(ValueError, match="Illegal increment of the `global_step`"):
        made.train(repeated, steps=4)


def test_loss_is_a_scalar() -> None:
    def last(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(logits_of(x), -1)

    made = estimator(4, params={"computational_stages": [first, last]})
    with pytest.raises(ValueError, match="must be a scalar"):
        made.train(repeated, steps=4)


@pytest.mark.parametrize(
    ("returned", "error", "phrase"),
    [
        ([], TypeError, "must return a dict"),
        ({}, KeyError, "must contain 'loss'"),
        ({"loss": (1, 2)}, TypeError, "must be a tensor"),
    ],
)
def test_wrong_metrics_functions_are_refused(
    returned: Any, error: type[Exception], phrase: str
) -> None:
    made = estimator(4, params={"eval_metrics_fn": lambda *outputs: returned})
    with pytest.raises(error, match=phrase):
        made.evaluate(repeated, steps=4)


@pytest.mark.parametrize("count", [0, 2])
def test_predictions_are_one_tensor_or_a_dict(count: int) -> None:
    stages = [forward, lambda x: [logits_of(x)] * count]
    made = estimator(4, params={"computational_stages": stages})
    with pytest.raises(ValueError, match=f"exactly one prediction tensor, but got {count}"):
        list(made.predict(features_only))


def test_steps_are_a_multiple_of_iterations() -> None:
    made = estimator(4)
    with pytest.raises(ValueError, match="multiple of iterations_per_loop"):
        made.train(repeated, steps=6)
    with pytest.raises(ValueError, match="`steps`"):
        made.evaluate(repeated)
    with pytest.raises(ValueError, match="input_fn must return Dataset"):
        made.train(lambda: pipelines.data(1), steps=4)
