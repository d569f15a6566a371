from __future__ import annotations

import threading
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.pipelining import stage_scope
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tests.support.models import keras_pipelines

base_layer = keras2.module("engine.base_layer")
node_lib = keras2.module("engine.node")


def test_marks_layers_and_calls_in_the_scope() -> None:
    inputs = tf.keras.Input((3,))
    with keras_pipelines.strategy(1).scope():
        outside = tf.keras.layers.Dense(2)
        with PipelineStage(1):
            inside = tf.keras.layers.Dense(2)
            outside(inputs)
        inside(inputs)
    assert stage_scope.stage_of(inside) == 1
    assert stage_scope.stage_of(outside) is None
    assert stage_scope.stage_of(outside.inbound_nodes[0]) == 1
    assert stage_scope.stage_of(inside.inbound_nodes[0]) is None


@pytest.mark.parametrize("fails", [False, True])
def test_leaves_keras_as_it_was(fails: bool) -> None:
    def now() -> Any:
        return base_layer.Layer.__dict__["__new__"], node_lib.Node.__dict__["__init__"]

    before = now()
    with keras_pipelines.strategy(1).scope():
        try:
            with PipelineStage(0):
                assert now() != before
                if fails:
                    raise KeyError
        except KeyError:
            pass
        assert stage_scope.current() is None
    assert now() == before


def test_a_scope_can_be_opened_again() -> None:
    stage = PipelineStage(2)
    with keras_pipelines.strategy(1).scope():
        for _ in range(2):
            with stage:
                assert stage_scope.stage_of(tf.keras.layers.ReLU()) == 2


def test_other_threads_are_in_no_stage() -> None:
    made = []
    with keras_pipelines.strategy(1).scope(), PipelineStage(0):
        thread = threading.Thread(target=lambda: made.append(tf.keras.layers.Dense(1)))
        thread.start()
        thread.join()
    assert stage_scope.stage_of(made[0]) is None


@pytest.mark.parametrize("stage", [-1, 1.0, "0", None, True])
def test_the_stage_must_be_a_number(stage: Any) -> None:
    with pytest.raises(ValueError, match="must be an integer >= 0"):
        PipelineStage(stage)


def test_a_stage_needs_a_strategy() -> None:
    with pytest.raises(RuntimeError, match="may only be used from within an IPUStrategy context"):
        PipelineStage(0).__enter__()
    with tf.distribute.get_strategy().scope():
        with pytest.raises(RuntimeError, match="within an IPUStrategy context"):
            PipelineStage(0).__enter__()


def test_must_not_be_nested() -> None:
    with keras_pipelines.strategy(1).scope(), PipelineStage(0):
        with pytest.raises(RuntimeError, match="Pipeline stages must not be nested"):
            PipelineStage(1).__enter__()
        assert stage_scope.current() == 0
