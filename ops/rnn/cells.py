"""Equations of LSTM and GRU cells, as Keras has them.

LSTM: `c' = f c + i g`, `h' = o act(c')`. GRU: `h' = z h + (1 - z) candidate`. The units of the
gates are side by side in one matrix: i, f, candidate, o for LSTM, and z (update), r (reset),
candidate for GRU.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tensorflow_ipu.ops.rnn import fused_lstm
from tensorflow_ipu.ops.rnn.activations import activate
from tensorflow_ipu.ops.rnn.scan import Product, Tensors, scan


@dataclass(frozen=True)
class LSTMCell:
    """A time step of an LSTM; states are h and c, the input is the inputs' part of the gates.

    Args:
        activation: name of that of the candidate and the output.
        recurrent_activation: name of that of the gates.
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
        activation: name of that of the candidate.
        recurrent_activation: name of that of the gates.
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
        return fused_lstm.lstm(x, kernel, bias, h, c)
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
