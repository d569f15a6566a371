"""RNN-T of MLPerf Training (Graves 2012; He et al. 2018) as two sequential stages on one IPU.

Five LSTM layers of 1024 over the frames of an utterance, the last three over pairs of them, two of
512 over the words, and the joint network of both. Utterances have the greatest length that MLPerf
trains on, 16.7 s, as programs of the chip have fixed shapes.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python import ipu

from . import layers
from .layers import Stage
from .resnet import variable

# Three frames of 10 ms are one step of 240 features.
_STEPS, _FEATURES = 557, 240
_ENCODER, _PREDICTOR, _JOINT = 1024, 512, 512
# Pieces of words, with the blank, and how many an utterance of that length has.
_VOCABULARY, _WORDS = 1024, 80
#: No layer is repeated.
REPEATS: dict[int, int] = {}


def element(micro_batch: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs for one micro-batch."""
    return (
        tf.TensorSpec([_STEPS, micro_batch, _FEATURES], tf.float16),
        tf.TensorSpec([_WORDS, micro_batch], tf.int32),
    )


def stages(micro_batch: int) -> list[Stage]:
    """Returns the forward stages: the encoder; the predictor, the joint network and the loss."""

    def encoder(x: tf.Tensor, words: tf.Tensor) -> Any:
        for index in range(2):
            x = _lstm(x, _ENCODER, f"encoder_{index}")
        x = tf.reshape(x[: _STEPS // 2 * 2], [_STEPS // 2, 2, micro_batch, _ENCODER])
        x = tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [_STEPS // 2, micro_batch, 2 * _ENCODER])
        for index in range(2, 5):
            x = _lstm(x, _ENCODER, f"encoder_{index}")
        return x, words

    def joint(x: tf.Tensor, words: tf.Tensor) -> Any:
        table = variable("words", [_VOCABULARY, _PREDICTOR])
        predicted = ipu.embedding_ops.embedding_lookup(table, words)
        for index in range(2):
            predicted = _lstm(predicted, _PREDICTOR, f"predictor_{index}")
        heard = layers.dense(x, _JOINT, "heard")[:, None]
        said = layers.dense(predicted, _JOINT, "said")[None]
        both = tf.reshape(tf.nn.relu(heard + said), [-1, _JOINT])
        logits = layers.dense(both, _VOCABULARY, "joint")
        # The probabilities along all alignments; summing them up is left out.
        chances = tf.nn.log_softmax(tf.cast(logits, tf.float32))
        return -tf.reduce_mean(chances)

    return [encoder, joint]


def _lstm(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    with tf.compat.v1.variable_scope(name):
        layer = ipu.rnn_ops.PopnnLSTM(units, dtype=tf.float16)
        return layer(x, training=True)[0]
