"""Masks padding of sequences that are shorter than the longest.

Layers run over the padding too, whose inputs are made zero; nothing of it gets out, so no gradient
comes back.
"""

from __future__ import annotations

import tensorflow as tf


def valid(inputs: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns which time steps are before the ends of sequences, bool `[time, batch]`."""
    return tf.transpose(tf.sequence_mask(lengths, tf.shape(inputs)[0]))


def without_padding(x: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Returns `x`, `[time, batch, ...]`, with zeros in the padding, whatever is there."""
    shape = tf.concat([tf.shape(valid), tf.ones([x.shape.rank - 2], tf.int32)], 0)
    return tf.where(tf.reshape(valid, shape), x, tf.zeros_like(x))


def last(initial: tf.Tensor, states: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the states after the last valid step.

    Args:
        initial: state before the first step, `[batch, units]`, for sequences without any step.
        states: states after all steps, `[time, batch, units]`.
        lengths: lengths of the sequences, int32 `[batch]`.
    """
    batch = tf.range(tf.shape(lengths)[0])
    return tf.gather_nd(tf.concat([initial[None], states], 0), tf.stack([lengths, batch], 1))
