"""BERT pre-training as stages of a pipeline, float16, for `programs.compile_pipeline`.

The encoder of Devlin et al. (2018): layer normalisation after each residual sum, GELU, dropout, a
head for masked tokens with the embedding's matrix, and one for the next sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python import ipu

from .resnet import variable

# Word pieces of the English uncased vocabulary, rounded up to 32.
_VOCABULARY = 30528
_MASKED_SHARE = 0.15  # of the tokens are predicted
_DROPOUT = 0.1

Stage = Callable[..., Any]


class Shape(NamedTuple):
    """A size of the model and of its data.

    Args:
        hidden: width of the encoder.
        length: tokens of a sequence.
        micro_batch: sequences (packs, if packed) in a micro-batch.
    """

    hidden: int
    length: int
    micro_batch: int

    @property
    def heads(self) -> int:
        """Attention heads, of 64 each."""
        return self.hidden // 64

    @property
    def masked(self) -> int:
        """Tokens of a sequence that are predicted."""
        return max(1, round(_MASKED_SHARE * self.length))

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * self.length


def element(shape: Shape) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs: tokens, segments, mask, masked positions, labels."""
    batch, length = shape.micro_batch, shape.length
    return (
        tf.TensorSpec([batch, length], tf.int32),
        tf.TensorSpec([batch, length], tf.int32),
        tf.TensorSpec([batch, length], tf.int32),
        tf.TensorSpec([batch, shape.masked], tf.int32),
        tf.TensorSpec([batch, shape.masked], tf.int32),
        tf.TensorSpec([batch], tf.int32),
    )


def stages(shape: Shape, layers: Sequence[int]) -> list[Stage]:
    """Returns the forward stages; the last has the heads.

    Args:
        shape: sizes.
        layers: encoder layers of each other stage; the first has the embeddings too.
    """
    made = [
        _encoder_stage(shape, index, sum(layers[:index]), count)
        for index, count in enumerate(layers)
    ]
    return [*made, _heads(shape)]


def _encoder_stage(shape: Shape, index: int, first: int, count: int) -> Stage:
    def stage(x: tf.Tensor, *others: tf.Tensor) -> Any:
        if index == 0:
            segments, mask, positions, labels, next_label = others
            table = _embedding_table(shape)
            x = _embed(shape, x, segments, table)
            mask = tf.cast(1 - mask, tf.float16)[:, None, None, :] * -1000.0
            others = (mask, positions, labels, next_label)
        for layer in range(first, first + count):
            with tf.compat.v1.variable_scope(f"layer_{layer}"):
                x = _layer(shape, x, others[0])
                # Each layer is computed again by itself, as in the published configurations.
                x = ipu.pipelining_ops.recomputation_checkpoint(x)
        return (x, *others)

    stage.__name__ = f"encoder_{index}"
    return stage


def _heads(shape: Shape) -> Stage:
    def heads(x: tf.Tensor, _: tf.Tensor, *targets: tf.Tensor) -> Any:
        return _loss(shape, x, *targets)

    return heads


def _embedding_table(shape: Shape) -> Any:
    with tf.compat.v1.variable_scope("embeddings", reuse=tf.compat.v1.AUTO_REUSE):
        return variable("words", [_VOCABULARY, shape.hidden])


def _embed(shape: Shape, tokens: tf.Tensor, segments: tf.Tensor, table: Any) -> tf.Tensor:
    with tf.compat.v1.variable_scope("embeddings"):
        x = ipu.embedding_ops.embedding_lookup(table, tokens)
        x += variable("positions", [shape.length, shape.hidden])
        x += ipu.embedding_ops.embedding_lookup(variable("kinds", [2, shape.hidden]), segments)
        return _dropout(_normalize(tf.reshape(x, [shape.tokens, shape.hidden]), "norm"))


def _layer(shape: Shape, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    hidden = shape.hidden
    attended = _dense(_attention(shape, x, mask), hidden, "output")
    x = _normalize(x + _dropout(attended), "attention_norm")
    wide = ipu.nn_ops.gelu(_dense(x, 4 * hidden, "wide"))
    return _normalize(x + _dropout(_dense(wide, hidden, "narrow")), "norm")


def _attention(shape: Shape, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    batch, length, heads = shape.micro_batch, shape.length, shape.heads
    size = shape.hidden // heads
    mixed = tf.reshape(_dense(x, 3 * shape.hidden, "qkv"), [batch, length, 3, heads, size])
    query, key, value = tf.unstack(tf.transpose(mixed, [2, 0, 3, 1, 4]))
    scores = tf.matmul(query, key, transpose_b=True) * size**-0.5 + mask
    context = tf.matmul(_dropout(tf.nn.softmax(scores)), value)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [shape.tokens, shape.hidden])


def _loss(
    shape: Shape, x: tf.Tensor, positions: tf.Tensor, labels: tf.Tensor, next_label: tf.Tensor
) -> tf.Tensor:
    x = tf.reshape(x, [shape.micro_batch, shape.length, shape.hidden])
    words = _embedding_table(shape)
    with tf.compat.v1.variable_scope("head"):
        masked = tf.reshape(tf.gather(x, positions, batch_dims=1), [-1, shape.hidden])
        masked = _normalize(ipu.nn_ops.gelu(_dense(masked, shape.hidden, "transform")), "norm")
        logits = tf.matmul(masked, words, transpose_b=True)
        logits += variable("bias", [_VOCABULARY])
        pooled = tf.tanh(_dense(x[:, 0], shape.hidden, "pooler"))
        return _cross_entropy(logits, tf.reshape(labels, [-1])) + _cross_entropy(
            _dense(pooled, 2, "next"), next_label
        )


def _cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
    return tf.reduce_mean(losses)


def _dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    with tf.compat.v1.variable_scope(name):
        return tf.matmul(x, variable("kernel", [x.shape[-1], units])) + variable("bias", [units])


def _normalize(x: tf.Tensor, name: str) -> tf.Tensor:
    return ipu.normalization_ops.layer_norm(x, scope=name, epsilon=1e-3)


def _dropout(x: tf.Tensor) -> tf.Tensor:
    return ipu.rand_ops.dropout(x, rate=_DROPOUT)
