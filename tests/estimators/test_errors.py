"""Errors of estimators, each with the phrase that users may look for."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models as models

tf1 = tf.compat.v1
Spec = ipu.ipu_estimator.IPUEstimatorSpec
StockSpec = tf.estimator.EstimatorSpec
ModeKeys = tf.estimator.ModeKeys


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({"train_batch_size": 0}, "train_batch_size (got 0) must be positive"),
        ({"eval_batch_size": -2}, "eval_batch_size (got -2) must be positive"),
        ({"predict_batch_size": 3}, "must be divisible"),
        ({"train_batch_size": 4, "params": {"batch_size": 2}}, "batch_size cannot be passed in"),
        ({"params": {"input_fn": 1}}, "reserved"),
        ({"params": [1]}, "`params` must be a dict"),
    ],
)
def test_wrong_arguments_of_the_constructor_are_refused(arguments, phrase: str) -> None:
    with pytest.raises(ValueError, match=re.escape(phrase)):
        models.estimator(models.run_config(replicas=2), **arguments)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({}, "One of `num_steps` or `final_step`"),
        ({"steps": 4, "max_steps": 4}, "Only one of `num_steps` or `final_step`"),
        ({"steps": 5}, r"steps \(5\) must be a multiple of iterations_per_loop \(4\)"),
        ({"steps": 0}, "steps > 0"),
        ({"max_steps": 0}, "max_steps > 0"),
    ],
)
def test_wrong_numbers_of_training_steps_are_refused(arguments, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        models.estimator(models.run_config(4)).train(models.repeated, **arguments)


@pytest.mark.parametrize(
    ("steps", "phrase"),
    [
        (None, "`steps` of evaluate must be given"),
        (6, r"steps \(6\) must be a multiple of iterations_per_loop \(4\)"),
        (0, "steps > 0"),
    ],
)
def test_wrong_numbers_of_evaluation_steps_are_refused(steps, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        models.estimator(models.run_config(4)).evaluate(models.repeated, steps=steps)


@pytest.mark.parametrize(
    ("input_fn", "phrase"),
    [
        (lambda: (models.X[0], models.Y[0]), "input_fn must return Dataset"),
        (lambda: models.repeated().map(lambda x, y: (x, y, y)), "as a len 2 tuple.*tuple of 3"),
        (lambda: models.repeated().map(lambda x, y: (x,)), "as a len 2 tuple.*tuple of 1"),
        (lambda: models.repeated().unbatch().batch(2), "drop_remainder=True"),
    ],
)
@pytest.mark.parametrize("method", ["train", "evaluate", "predict"])
def test_wrong_input_functions_are_refused(input_fn, phrase: str, method: str) -> None:
    estimator = models.estimator()
    with pytest.raises(ValueError, match=phrase):
        if method == "predict":
            next(estimator.predict(input_fn))
        else:
            getattr(estimator, method)(input_fn, steps=1)


def test_an_input_function_without_params_is_refused() -> None:
    """Needed only where it has to know the size of batches."""
    estimator = models.estimator(train_batch_size=4)
    with pytest.raises(ValueError, match="does not include params argument"):
        estimator.train(models.repeated, steps=1)
    estimator.evaluate(models.repeated, steps=1)


def test_labels_that_the_model_does_not_take() -> None:
    def model(features, mode):
        predictions = models.prediction(features)
        return StockSpec(mode, predictions=predictions, loss=tf.reduce_sum(predictions))

    estimator = models.estimator(model=model)
    with pytest.raises(ValueError, match="model_fn does not take labels, but input_fn returns"):
        estimator.train(models.repeated, steps=1)
    next(estimator.predict(models.repeated))


@pytest.mark.parametrize(
    ("spec", "phrase"),
    [
        (lambda mode, loss: loss, "model_fn should return an EstimatorSpec"),
        (lambda mode, loss: Spec(mode, loss=loss), "Missing train_op"),
        (lambda mode, loss: StockSpec(mode, loss=loss), "Missing train_op"),
        (lambda mode, loss: Spec(mode, train_op=tf.no_op()), "Missing loss"),
        (
            lambda mode, loss: StockSpec(
                mode,
                loss=loss,
                train_op=models.sgd().minimize(loss, global_step=tf1.train.get_global_step()),
            ),
            "Illegal increment of the `global_step`",
        ),
    ],
)
@pytest.mark.parametrize("iterations", [1, 2])
def test_wrong_specifications_for_training_are_refused(spec, phrase: str, iterations: int) -> None:
    def model(features, labels, mode):
        return spec(mode, models.squared_error(labels, models.prediction(features)))

    with pytest.raises(ValueError, match=phrase):
        models.estimator(models.run_config(iterations), model).train(models.repeated, steps=2)


def test_an_increment_in_a_branch_is_refused() -> None:
    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        step = tf1.train.get_or_create_global_step()
        added = tf.cond(loss > 0, lambda: step.assign_add(1).op, lambda: tf.no_op())
        return StockSpec(mode, loss=loss, train_op=tf.group(added))

    with pytest.raises(ValueError, match="Illegal increment of the `global_step`"):
        models.estimator(models.run_config(2), model).train(models.repeated, steps=2)


@pytest.mark.parametrize("iterations", [1, 2])
def test_replicas_that_would_part_ways_are_refused(iterations: int) -> None:
    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        return StockSpec(mode, loss=loss, train_op=models.sgd().minimize(loss))

    config = models.run_config(iterations, replicas=2)
    with pytest.raises(ValueError, match="This is not a valid replicated training graph"):
        models.estimator(config, model).train(models.repeated, steps=2)


def test_host_call_of_several_iterations() -> None:
    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        return Spec(mode, loss=loss, train_op=tf.identity(loss), host_call=(tf.group, [loss]))

    with pytest.raises(ValueError, match="host_call is not allowed for iterations_per_loop > 1"):
        models.estimator(models.run_config(2), model).train(models.repeated, steps=2)


def test_host_call_that_returns_nothing() -> None:
    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        host_call = (lambda loss: None, [loss])
        return Spec(mode, loss=loss, train_op=tf.identity(loss), host_call=host_call)

    with pytest.raises(TypeError, match="`host_call` return value must be Operation or Tensor"):
        models.estimator(model=model).train(models.repeated, steps=1)


@pytest.mark.parametrize("name", ["host_call", "eval_metrics"])
@pytest.mark.parametrize(
    ("value", "error", "phrase"),
    [
        ([tf.group, []], TypeError, "must be a tuple"),
        ((tf.group,), ValueError, "must have two elements"),
        ((tf.group, [], []), ValueError, "must have two elements"),
        (([], []), TypeError, "must be callable"),
        ((tf.group, ()), TypeError, "second element"),
    ],
)
def test_wrong_host_functions_are_refused(name: str, value, error, phrase: str) -> None:
    with tf.Graph().as_default():
        loss = tf.constant(0.0)
        with pytest.raises(error, match=phrase):
            Spec(ModeKeys.TRAIN, loss=loss, train_op=loss.op, **{name: value})


def test_wrong_containers_of_host_functions_are_refused() -> None:
    """A dict is for metrics only."""
    with tf.Graph().as_default():
        loss = tf.constant(0.0)
        tensors = {"loss": loss}
        spec = Spec(ModeKeys.EVAL, loss=loss, eval_metrics=(tf.group, tensors))
        assert spec.eval_metrics[1] is tensors
        with pytest.raises(TypeError, match="second element"):
            Spec(ModeKeys.TRAIN, loss=loss, train_op=loss.op, host_call=(tf.group, tensors))


@pytest.mark.parametrize(
    ("spec", "error", "phrase"),
    [
        (lambda loss: {"loss": loss}, ValueError, "must contain either eval_metric_ops"),
        (
            lambda loss: {
                "loss": loss,
                "eval_metric_ops": {"a": (loss, loss)},
                "eval_metrics": (lambda x: {}, [loss]),
            },
            ValueError,
            "cannot contain both eval_metric_ops and eval_metrics",
        ),
        (lambda loss: {"eval_metric_ops": {"a": (loss, loss)}}, ValueError, "Missing loss"),
        (
            lambda loss: {"loss": loss, "eval_metrics": (lambda x: [x], [loss])},
            TypeError,
            "must return a dict",
        ),
        (
            lambda loss: {"loss": loss, "eval_metric_ops": {"loss": (loss, loss)}},
            ValueError,
            '"loss" is not allowed',
        ),
    ],
)
def test_wrong_specifications_for_evaluation_are_refused(spec, error, phrase: str) -> None:
    def model(features, labels, mode):
        return Spec(mode, **spec(models.squared_error(labels, models.prediction(features))))

    with pytest.raises(error, match=phrase):
        models.estimator(model=model).evaluate(models.repeated, steps=1)


def test_a_specification_without_predictions_is_refused() -> None:
    with pytest.raises(ValueError, match="Missing predictions"):
        next(models.estimator(model=lambda features, mode: Spec(mode)).predict(models.repeated))


def test_nothing_is_trained_yet() -> None:
    estimator = models.estimator()
    assert estimator.latest_checkpoint() is None
    with pytest.raises(ValueError, match="Could not find trained model"):
        estimator.get_variable_names()
