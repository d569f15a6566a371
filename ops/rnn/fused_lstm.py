"""The LSTM of tanh and sigmoid by TensorFlow's fused kernel, with a gradient for it.

`BlockLSTMV2` has the gate order of this package and of Keras: i, f, candidate, o. The gradient that
TensorFlow 2.15 registers for it is that of `BlockLSTM`, which has another gate order: it is wrong,
and several times as slow as the one here.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops.rnn import gradients


def lstm(
    x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, h: tf.Tensor, c: tf.Tensor
) -> list[tf.Tensor]:
    """Runs an LSTM over time.

    Args:
        x: the inputs, `[time, batch, input size]`, with at least one time step.
        kernel: `[input size + units, 4 units]`, gates in the order i, f, candidate, o.
        bias: `[4 units]`.
        h: the output before the first step, `[batch, units]`.
        c: the cell state before it, `[batch, units]`.

    Returns:
        The outputs and the cell states after all steps, `[time, batch, units]` each.
    """
    return gradients.differentiable(_forward, _backward, None, [x, kernel, bias, h, c], 2)


def _forward(_: None, *arguments: tf.Tensor) -> list[tf.Tensor]:
    x, kernel, bias, h, c = arguments
    unused = tf.zeros_like(bias[: h.shape[-1]])  # weights of peepholes
    result = tf.raw_ops.BlockLSTMV2(
        seq_len_max=tf.shape(x, tf.int64)[0],
        x=x,
        cs_prev=c,
        h_prev=h,
        w=kernel,
        wci=unused,
        wcf=unused,
        wco=unused,
        b=bias,
        cell_clip=-1.0,
        use_peephole=False,
    )
    return [result.h, result.cs, result.i, result.f, result.ci, result.o]


def _backward(_: None, *tensors: tf.Tensor) -> list[tf.Tensor]:
    """Differentiates `c' = f c + i g`, `h' = o tanh(c')`, backwards in time.

    Everything that does not depend on the step before is computed for all steps at once; the loop
    has one product.
    """
    x, kernel, _, h, c, hs, cs, i, f, g, o, of_hs, of_cs = tensors
    size, units = x.shape[-1], h.shape[-1]
    before = tf.concat([c[None], cs[:-1]], 0)
    squashed = tf.tanh(cs)
    # What the gradients of c' and h' are multiplied by.
    from_h = tf.stack([o * (1 - squashed * squashed), squashed * o * (1 - o)], 2)
    from_c = tf.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), f], 2)
    carried, gates = _back_in_time(kernel[size:], from_h, from_c, of_hs, of_cs, h, c)
    inputs = tf.concat([x, tf.concat([h[None], hs[:-1]], 0)], 2)
    of_kernel = tf.matmul(
        tf.reshape(inputs, [-1, size + units]), tf.reshape(gates, [-1, 4 * units]), transpose_a=True
    )
    of_x = tf.tensordot(gates, kernel[:size], [[2], [1]])
    return [of_x, of_kernel, tf.reduce_sum(gates, [0, 1]), *carried]


def _back_in_time(
    recurrent: tf.Tensor,
    from_h: tf.Tensor,
    from_c: tf.Tensor,
    of_hs: tf.Tensor,
    of_cs: tf.Tensor,
    *initial: tf.Tensor,
) -> Any:
    """Returns the gradients of the initial h and c, and of the gates, `[time, batch, 4 units]`."""
    steps, units = tf.shape(of_hs)[0], initial[0].shape[-1]
    shape = of_hs.shape[1:2] + [4 * units]
    array = tf.TensorArray(of_hs.dtype, steps, element_shape=shape)

    def body(time: tf.Tensor, of_h: tf.Tensor, of_c: tf.Tensor, array: tf.TensorArray) -> Any:
        time -= 1
        of_h += of_hs[time]
        to_c, to_o = tf.unstack(of_h[:, None] * from_h[time], axis=1)
        of_c += of_cs[time] + to_c
        *others, of_c = tf.unstack(of_c[:, None] * from_c[time], axis=1)
        gates = tf.concat([*others, to_o], 1)
        of_h = tf.matmul(gates, recurrent, transpose_b=True)
        return time, of_h, of_c, array.write(time, gates)

    zeros = [tf.zeros_like(state) for state in initial]
    _, *carried, array = tf.while_loop(
        lambda time, *_: time > 0, body, [steps, *zeros, array], maximum_iterations=steps
    )
    return carried, tf.ensure_shape(array.stack(), of_hs.shape[:2] + [4 * units])
