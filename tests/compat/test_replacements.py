"""Tests of replacements of dropped names of Python, NumPy and TensorFlow, without graphs."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compat.contrib import framework, training
from tensorflow_ipu.compat.replacements import datasets, mixed_precision, python


def test_getargspec_lists_arguments_and_refuses_keyword_only_ones():
    def f(a, b=2, *c, **d):
        pass

    assert python.getargspec(f) == (["a", "b"], "c", "d", (2,))
    with pytest.raises(ValueError, match="keyword-only parameters or annotations, use inspect"):
        python.getargspec(lambda *, a: a)


def test_coroutine_makes_generators_awaitable():
    @python.coroutine
    def generator():
        yield from asyncio.sleep(0)
        return 1

    @python.coroutine
    def plain():
        return generator()

    async def new():
        return 2

    assert asyncio.run(plain()) == 1
    assert python.coroutine(new) is new


def test_asscalar_returns_the_element():
    assert python.asscalar(np.array([[3]])) == 3


class TestHParams:
    def hparams(self):
        return training.HParams(rate=0.1, width=8, layers=[4, 2], name="a", flag=False)

    def test_hyperparameters_are_attributes(self):
        hparams = self.hparams()
        hparams.add_hparam("more", 1)
        assert hparams.rate == 0.1 and hparams.more == 1 and "more" in hparams
        assert hparams.get("none") is None and hparams.get("none", 3) == 3
        hparams.del_hparam("more")
        assert "more" not in hparams and sorted(hparams.values()) == [
            *("flag", "layers", "name", "rate", "width"),
        ]

    def test_hyperparameters_are_parsed_from_text(self):
        hparams = self.hparams().parse("rate=1e-3,layers=[8, 4],name=b c,flag=true")
        hparams.parse("layers[0]=3")
        assert str(hparams) == (
            "[('flag', True), ('layers', [3, 4]), ('name', 'b c'), ('rate', 0.001), ('width', 8)]"
        )

    def test_hyperparameters_make_a_json_round_trip(self):
        hparams = self.hparams()
        text = hparams.to_json(sort_keys=True)
        assert text == ('{"flag": false, "layers": [4, 2], "name": "a", "rate": 0.1, "width": 8}')
        assert hparams.parse_json('{"rate": 1, "width": 2}').values()["rate"] == 1.0
        assert isinstance(hparams.rate, float)

    @pytest.mark.parametrize(
        "text, words",
        [
            ("none=1", "Unknown hyperparameter type for none"),
            ("width=a", "Could not parse hparam 'width' of type 'int' with value 'a'"),
            ("width", "Malformed hyperparameter value: width"),
            ("width=1,width=2", "Multiple assignments to variable 'width'"),
            ("width=[1]", "must be not a list"),
        ],
    )
    def test_wrong_text_is_refused(self, text, words):
        with pytest.raises(ValueError, match=words):
            self.hparams().parse(text)

    def test_wrong_values_are_refused(self):
        with pytest.raises(ValueError, match="Could not cast hparam 'width' of type 'int'"):
            self.hparams().set_hparam("width", 1.5)
        with pytest.raises(ValueError, match="Hyperparameter name is reserved: width"):
            self.hparams().add_hparam("width", 1)
        with pytest.raises(ValueError, match="Multi-valued hyperparameters cannot be empty: a"):
            training.HParams(a=[])


class TestArgScope:
    def test_arg_scope_sets_default_arguments(self):
        @framework.add_arg_scope
        def f(a, b=1, *, c=2):
            return a, b, c

        with framework.arg_scope([f], b=3) as outer:
            assert f(0) == (0, 3, 2)
            assert f(0, b=4) == (0, 4, 2)
            with framework.arg_scope([f], c=5):
                assert f(0) == (0, 3, 5)
            with framework.arg_scope({}):
                assert f(0) == (0, 1, 2)
        assert f(0) == (0, 1, 2)
        with framework.arg_scope(outer):
            assert f(0) == (0, 3, 2)
        assert framework.has_arg_scope(f) and not framework.has_arg_scope(len)
        assert framework.arg_scoped_arguments(f) == ("a", "b", "c")
        assert framework.current_arg_scope() == {}

    def test_wrong_arguments_of_arg_scope_are_refused(self):
        with pytest.raises(ValueError, match="is not decorated with @add_arg_scope"):
            with framework.arg_scope([len], a=1):
                pass
        with pytest.raises(ValueError, match="kwargs must be empty"):
            with framework.arg_scope({}, a=1):
                pass
        with pytest.raises(TypeError, match="list/tuple or reused scope"):
            with framework.arg_scope(len, a=1):
                pass


class TestLossScaleOptimizer:
    class Mine(mixed_precision.LossScaleOptimizer):
        def __init__(self, optimizer, loss_scale=8):
            super().__init__(optimizer, loss_scale)

    def test_is_derived_from_and_trains(self):
        optimizer = self.Mine(tf.keras.optimizers.legacy.SGD(0.5))
        assert float(optimizer.get_scaled_loss(tf.constant(2.0))) == 16.0
        variable = tf.Variable(1.0)
        (gradient,) = optimizer.get_unscaled_gradients([tf.constant(16.0)])
        optimizer.apply_gradients([(gradient, variable)])
        assert float(variable) == 0.0

    @pytest.mark.parametrize(
        "scale, expected, dynamic",
        [
            (4.0, 4.0, False),
            ("dynamic", 2.0**15, True),
            (tf.compat.v1.mixed_precision.FixedLossScale(2), 2.0, False),
            (tf.compat.v1.mixed_precision.DynamicLossScale(64, 10), 64.0, True),
        ],
        ids=["number", "dynamic", "fixed", "object"],
    )
    def test_the_loss_scale_is_kept_in_the_configuration(self, scale, expected, dynamic):
        optimizer = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.legacy.SGD(0.1), scale)
        again = mixed_precision.LossScaleOptimizer.from_config(optimizer.get_config())
        for one in (optimizer, again):
            assert float(one.loss_scale) == expected and one.dynamic == dynamic
            assert one.inner_optimizer.get_config()["learning_rate"] == pytest.approx(0.1)

    def test_wrong_arguments_of_loss_scale_optimizer_are_refused(self):
        with pytest.raises(ValueError, match='"optimizer" must be an instance of OptimizerV2'):
            mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 2)
        with pytest.raises(ValueError, match='Expected "loss_scale" to be a number'):
            mixed_precision.LossScaleOptimizer(tf.keras.optimizers.legacy.SGD(0.1), True)


def test_statistics_of_datasets_have_no_effect(caplog):
    aggregator = datasets.StatsAggregator()
    options = datasets.StatsOptions()
    options.aggregator = aggregator
    assert aggregator.get_summary().numpy() == b""
    dataset = tf.data.Dataset.range(3).apply(datasets.latency_stats("a"))
    assert list(dataset.as_numpy_iterator()) == [0, 1, 2]
    assert repr(options) == "StatsOptions(aggregator=StatsAggregator())"
    assert sum("collects no statistics" in record.message for record in caplog.records) == 1
