"""The pass that lets labels that are no class give NaN, by its results and on text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler.passes import mask_labels
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import default_target, program_of


def _run(function: Callable[..., Any], *args: Any) -> Any:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        results = strategy.run(tf.function(function, jit_compile=True), args)
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), results)


def _loss_and_gradient(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return loss, tape.gradient(loss, logits)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
@pytest.mark.parametrize("kind", [tf.int32, tf.int64])
def test_labels_that_are_no_class_give_nan(dtype: tf.DType, kind: tf.DType) -> None:
    logits = tf.constant(np.random.default_rng(2).normal(size=(4, 3)), dtype)
    loss, gradient = _run(_loss_and_gradient, logits, tf.constant([2, 50, 0, -1], kind))
    expected = [tensor.numpy() for tensor in _loss_and_gradient(logits, tf.constant([2, 0, 0, 0]))]
    for got, want in zip((loss, gradient), expected):
        want[[1, 3]] = np.nan
        np.testing.assert_allclose(got, want, rtol=2e-3 if dtype == tf.float16 else 1e-6)


def test_labels_outside_compilation_are_tensorflow_s_own() -> None:

    def program(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with scopes.outside_compilation_scope():
            return _loss_and_gradient(logits, labels)[0]

    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
        _run(program, tf.zeros([2, 3]), tf.constant([0, 3]))


def test_only_the_loss_takes_masked_labels() -> None:
    def program(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return loss + tf.cast(labels, tf.float32) + logits[:, 0]

    made = program_of(program, tf.TensorSpec([4, 3]), tf.TensorSpec([4], tf.int32))
    mask_labels.run(made, default_target())
    lines = [line for line in str(made).splitlines() if "ipu_labels:" in line]
    assert len(lines) == 1 and "= SparseSoftmaxCrossEntropyWithLogits(" in lines[0]
