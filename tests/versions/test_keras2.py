"""Tests that Keras 2 is found where `tf.keras` has it."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf

from tensorflow_ipu.versions import keras2


def test_the_package_is_that_of_tf_keras():
    assert tf.keras.Model.__module__.split(".")[0] == keras2.PACKAGE
    assert keras2.module("engine.training").Model is tf.keras.Model


def test_keras_3_is_refused_with_what_to_install(monkeypatch):
    model = type("Model", (), {"__module__": "json.src.models"})
    monkeypatch.setattr(tf, "keras", types.SimpleNamespace(Model=model))
    monkeypatch.setattr("json.__version__", "3.5.0")
    with pytest.raises(ImportError, match=r"Keras 3\.5\.0.*pip install 'tf_keras~=2\.\d+\.0'"):
        keras2.package()
