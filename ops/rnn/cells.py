"""Equations of LSTM and GRU cells, as Keras has them.

LSTM: `c' = f c + i g`, `h' = o act(c')`. GRU: `h' = z h + (1 - z) candidate`. The units of the
gates are side by side in one matrix: i, f, candidate, o for LSTM, and z (update), r (reset),
candidate for GRU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops.rnn import recurrence
from tensorflow_ipu.ops.rnn.arguments import activate
from tensorflow_ipu.ops.rnn.recurrence import Product, Tensors, scan

# --- LSTM by TensorFlow's fused kernel ---

# `BlockLSTMV2` has the gate order of this package and of Keras: i, f, candidate, o. The gradient
# that TensorFlow 2.15 registers for it is that of `BlockLSTM`, which has another gate order: it is
# wrong, and several times as slow as the one here.


def fused_lstm(
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
    return recurrence.differentiable(_forward, _backward, None, [x, kernel, bias, h, c], 2)


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


# --- Equations ---


@dataclass(frozen=True)
class LSTMCell:
    """A time step of an LSTM; states are h and c, the input is the inputs' part of the gates.

    Args:
        activation: name of the activation of candidate and output.
        recurrent_activation: name of the activation of the gates.
    """

    activation: str
    recurrent_activation: str

    def step(self, inputs: Tensors, states: Tensors, product: Product) -> Tensors:
        """Computes a time step; see `Cell`."""
        h, c = states
        i, f, candidate, o = tf.split(inputs[0] + product(0, h), 4, 1)
        i, f, o = (activate(self.recurrent_activation, gate) for gate in (i, f, o))
        c = f * c + i * activate(self.activation, candidate)
        return [o * activate(self.activation, c), c]


@dataclass(frozen=True)
class GRUCell:
    """A time step of a GRU; the state is h, the input is the inputs' part of the gates.

    Args:
        activation: name of the activation of the candidate.
        recurrent_activation: name of the activation of the gates.
        reset_after: whether the reset gate is applied after the product with the state.
    """

    activation: str
    recurrent_activation: str
    reset_after: bool

    def step(self, inputs: Tensors, states: Tensors, product: Product) -> Tensors:
        """Computes a time step; see `Cell`. A second input is the attention score of an AUGRU."""
        (h,) = states
        z_input, r_input, candidate_input = tf.split(inputs[0], 3, 1)
        if self.reset_after:
            z_state, r_state, candidate_state = tf.split(product(0, h), 3, 1)
        else:
            z_state, r_state = tf.split(product(0, h), 2, 1)
        z = activate(self.recurrent_activation, z_input + z_state)
        r = activate(self.recurrent_activation, r_input + r_state)
        reset = r * candidate_state if self.reset_after else product(1, r * h)
        candidate = activate(self.activation, candidate_input + reset)
        if len(inputs) > 1:
            z *= 1 - inputs[1]
        return [z * h + (1 - z) * candidate]


def lstm(
    cell: LSTMCell, x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, h: tf.Tensor, c: tf.Tensor
) -> Tensors:
    """Runs an LSTM over time.

    Args:
        cell: the time step.
        x: the inputs, `[time, batch, input size]`, with at least one time step.
        kernel: `[input size + units, 4 units]`.
        bias: `[4 units]`.
        h: the output before the first step, `[batch, units]`.
        c: the cell state before it, `[batch, units]`.

    Returns:
        The outputs and the cell states after all steps, `[time, batch, units]` each.
    """
    if cell == LSTMCell("tanh", "sigmoid"):
        return fused_lstm(x, kernel, bias, h, c)
    size = x.shape[-1]
    # The inputs' part of all gates at all times is one product.
    inputs = tf.tensordot(x, kernel[:size], 1)
    return scan(cell, [inputs], [h, c], [(kernel[size:], bias)])


def gru(
    cell: GRUCell,
    x: tf.Tensor,
    kernel: tf.Tensor,
    input_bias: tf.Tensor,
    recurrent_bias: tf.Tensor,
    h: tf.Tensor,
    attention: tf.Tensor | None = None,
) -> tf.Tensor:
    """Runs a GRU over time.

    Args:
        cell: the time step.
        x: the inputs, `[time, batch, input size]`, with at least one time step.
        kernel: `[input size + units, 3 units]`.
        input_bias: added to the inputs' part of the gates, `[3 units]`.
        recurrent_bias: added to the state's part, `[3 units]`.
        h: the state before the first step, `[batch, units]`.
        attention: scores `[time, batch]`; the update gate is multiplied by 1 - score.

    Returns:
        The states after all steps, `[time, batch, units]`.
    """
    size, units = x.shape[-1], h.shape[-1]
    sequences = [tf.tensordot(x, kernel[:size], 1) + input_bias]
    if attention is not None:
        sequences.append(attention[..., None])
    recurrent = kernel[size:]
    if cell.reset_after:
        weights = [(recurrent, recurrent_bias)]
    else:
        gates = 2 * units
        weights = [
            (recurrent[:, :gates], recurrent_bias[:gates]),
            (recurrent[:, gates:], recurrent_bias[gates:]),
        ]
    return scan(cell, sequences, [h], weights)[0]
