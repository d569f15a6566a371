"""LSTM and GRU layers: the public module `ipu.rnn_ops`.

All have one `kernel`, `[input size + units, gates * units]`: first the rows for the inputs, then
those for the state, and the gates side by side in the order i, f, candidate, o (LSTM) or z
(update), r (reset), candidate (GRU). `biases` are `[gates, units]`. Stock Keras layers have the
same order, so weights can be taken over either way:

    keras_layer.set_weights([kernel[:input_size], kernel[input_size:], biases.reshape(-1)])

A GRU with `reset_after=True` has `biases` of the shape `[3, 2, units]`, those of the inputs'
product and of the state's; Keras has `[2, 3 * units]`, which are
`biases.transpose(1, 0, 2).reshape(2, -1)`. Keras's GRU has `reset_after=True` by default, these
have `False`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops.rnn import arguments
from tensorflow_ipu.ops.rnn import cells as _rnn_cells
from tensorflow_ipu.ops.rnn import lengths as _rnn_lengths
from tensorflow_ipu.ops.rnn.activations import Activation
from tensorflow_ipu.ops.rnn.gru import PopnnAUGRU, PopnnDynamicGRU, PopnnGRU
from tensorflow_ipu.ops.rnn.layers import PopnnRNN

__all__ = ["PopnnAUGRU", "PopnnDynamicGRU", "PopnnDynamicLSTM", "PopnnGRU", "PopnnLSTM"]

LSTMStateTuple = tf.compat.v1.nn.rnn_cell.LSTMStateTuple


class PopnnLSTM(PopnnRNN):
    """An LSTM over sequences of one length.

    The variables are `kernel` `[input size + units, 4 * units]` and `biases` `[4, units]`. No bias
    is added to the forget gate.

    Args:
        num_units: number of units.
        dtype: float16 or float32.
        partials_dtype: type in which sums are accumulated. A float16 layer with float32 partial
            results computes in float32 and rounds its results.
        seed: seed of the default `weights_initializer`.
        weights_initializer: first value of `kernel`; Glorot uniform by default.
        bias_initializer: first value of `biases`; zeros by default.
        activation: tanh, relu, softmax, sigmoid or hard_sigmoid.
        recurrent_activation: tanh, softmax, sigmoid or hard_sigmoid.
        name: scope of the variables.
        options: options of the device's library for the forward pass, without effect on results.
        options_bwd: the same for the backward pass.
    """

    GATES = 4

    def __init__(
        self,
        num_units: int,
        dtype: Any = tf.float32,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: Activation = "tanh",
        recurrent_activation: Activation = "sigmoid",
        name: str | None = None,
        options: Any = None,
        options_bwd: Any = None,
    ) -> None:
        super().__init__(
            num_units,
            dtype,
            partials_dtype,
            seed,
            weights_initializer,
            bias_initializer,
            activation,
            recurrent_activation,
            name,
            options,
            options_bwd,
        )

    def build(self, input_shape: Any) -> None:
        """Makes the variables; see `PopnnRNN.build`."""
        super().build(input_shape)

    def call(
        self, inputs: Any, initial_state: Any = None, training: bool = True
    ) -> tuple[tf.Tensor, Any]:
        """Runs the layer.

        Args:
            inputs: `[time, batch, input size]`, cast to the type of the layer.
            initial_state: an `LSTMStateTuple` of c and h, `[batch, units]` each; zeros by default.
            training: whether the results have a gradient.

        Returns:
            The outputs, `[time, batch, units]`, and the final state, an `LSTMStateTuple`.

        Raises:
            ValueError: an argument has another shape or type.
        """
        return self._run(inputs, None, initial_state, training)

    def state_shape(self, batch_size: int) -> tuple[list[int], list[int]]:
        """Returns the shapes of c and h.

        Args:
            batch_size: number of sequences.
        """
        return [batch_size, self._num_units], [batch_size, self._num_units]

    def _run(
        self, inputs: Any, seq_len: Any, initial_state: Any, training: bool
    ) -> tuple[tf.Tensor, Any]:
        inputs = self._inputs(inputs)
        state = self._states(initial_state, inputs)
        cell = _rnn_cells.LSTMCell(self._activation, self._recurrent_activation)
        weights = self._weight(self.kernel), tf.reshape(self._weight(self.biases), [-1])
        if seq_len is None:
            outputs, cells = _rnn_cells.lstm(cell, inputs, *weights, state.h, state.c)
            c, h = cells[-1], outputs[-1]
        else:
            steps, batch = inputs.shape[:2]
            lengths = arguments.sequence_lengths(seq_len, batch, steps)
            valid = _rnn_lengths.valid(inputs, lengths)
            inputs = _rnn_lengths.without_padding(inputs, valid)
            outputs, cells = _rnn_cells.lstm(cell, inputs, *weights, state.h, state.c)
            c = _rnn_lengths.last(state.c, cells, lengths)
            h = _rnn_lengths.last(state.h, outputs, lengths)
            outputs = _rnn_lengths.without_padding(outputs, valid)
        outputs, c, h = (self._result(x, training) for x in (outputs, c, h))
        return outputs, LSTMStateTuple(c, h)

    def _states(self, value: Any, inputs: tf.Tensor) -> Any:
        if value is not None and not isinstance(value, LSTMStateTuple):
            raise ValueError(
                "Invalid initial_state, expecting `LSTMStateTuple`, which is in "
                f"tf.compat.v1.nn.rnn_cell. Received: {value!r}"
            )
        c, h = (None, None) if value is None else value
        return LSTMStateTuple(
            self._state(c, "initial_state.c", inputs), self._state(h, "initial_state.h", inputs)
        )


class PopnnDynamicLSTM(PopnnLSTM):
    """An LSTM over sequences of different lengths; arguments and variables as of `PopnnLSTM`."""

    def call(  # type: ignore[override]  # the reference adds arguments
        self, inputs: Any, seq_len: Any, initial_state: Any = None, training: bool = True
    ) -> tuple[tf.Tensor, Any]:
        """Runs the layer.

        Args:
            inputs: `[time, batch, input size]`, cast to the type of the layer.
            seq_len: lengths of the sequences, integers `[batch]`, at most the time steps.
            initial_state: an `LSTMStateTuple` of c and h, `[batch, units]` each; zeros by default.
            training: whether the results have a gradient.

        Returns:
            The outputs, `[time, batch, units]`, zeros after the end of a sequence, and the state
            after the end of each, an `LSTMStateTuple`.

        Raises:
            ValueError: an argument has another shape or type.
            tf.errors.InvalidArgumentError: `seq_len` has another shape, or is out of range.
        """
        return self._run(inputs, seq_len, initial_state, training)
