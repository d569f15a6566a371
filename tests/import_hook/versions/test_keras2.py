"""Tests that Keras 2 is found where `tf.keras` has it."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf

from tensorflow_ipu.import_hook.versions import keras2


def test_the_package_is_that_of_tf_keras():
    assert tf.keras.Model.__module__.split(".")[0] == keras2.PACKAGE
    assert keras2.module("engine.training").Model is tf.keras.Model


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("0", "TF_USE_LEGACY_KERAS is '0'. Leave it unset"),
        (None, "the program used it before it imported ipu"),
    ],
)
def test_keras_3_is_refused_with_the_reason(monkeypatch, setting, reason):
    model = type("Model", (), {"__module__": "json.src.models"})
    monkeypatch.setattr(tf, "keras", types.SimpleNamespace(Model=model))
    monkeypatch.setattr("json.__version__", "3.5.0")
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    if setting is not None:
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", setting)
    with pytest.raises(ImportError, match=rf"tf\.keras is Keras 3\.5\.0: .*{reason}"):
        keras2.package()


@pytest.mark.parametrize("training", [True, False, None])
def test_layers_called_in_a_call_are_inside(training):
    seen = []

    class Inner(tf.keras.layers.Layer):
        def call(self, x, training=None):
            seen.append(training)
            return x

    outer = tf.keras.layers.Layer()
    with tf.Graph().as_default():
        x = tf.zeros([1])
        with keras2.call_of(outer, x, training):
            Inner()(x)
            assert keras2.module("engine.base_layer_utils").call_context().layer is outer
    assert seen == [training]
