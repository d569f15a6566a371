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

from tensorflow_ipu.ops.rnn import arguments, cells, recurrence
from tensorflow_ipu.ops.rnn.arguments import Activation
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
        cell = cells.LSTMCell(self._activation, self._recurrent_activation)
        weights = self._weight(self.kernel), tf.reshape(self._weight(self.biases), [-1])
        if seq_len is None:
            outputs, cell_states = cells.lstm(cell, inputs, *weights, state.h, state.c)
            c, h = cell_states[-1], outputs[-1]
        else:
            steps, batch = inputs.shape[:2]
            lengths = arguments.sequence_lengths(seq_len, batch, steps)
            valid = recurrence.valid(inputs, lengths)
            inputs = recurrence.without_padding(inputs, valid)
            outputs, cell_states = cells.lstm(cell, inputs, *weights, state.h, state.c)
            c = recurrence.last(state.c, cell_states, lengths)
            h = recurrence.last(state.h, outputs, lengths)
            outputs = recurrence.without_padding(outputs, valid)
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


class PopnnGRU(PopnnRNN):
    """A GRU over sequences of one length; see `PopnnRNN` for the other arguments.

    The variables are `kernel` `[input size + units, 3 * units]` and `biases` `[3, units]`, or
    `[3, 2, units]` with `reset_after`.

    Args:
        reset_after: whether the reset gate is applied after the product of state and weights.
    """

    GATES = 3

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
        reset_after: bool = False,
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
        self._reset_after = bool(reset_after)

    def build(self, input_shape: Any) -> None:
        """Makes the variables; see `PopnnRNN.build`."""
        super().build(input_shape)

    def call(
        self, inputs: Any, initial_state: Any = None, training: bool = True
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs the layer.

        Args:
            inputs: `[time, batch, input size]`, cast to the type of the layer.
            initial_state: `[batch, units]`; zeros by default.
            training: whether the results have a gradient.

        Returns:
            The outputs, `[time, batch, units]`, and the final state, `[batch, units]`.

        Raises:
            ValueError: an argument has another shape or type.
        """
        inputs = self._inputs(inputs)
        state = self._state(initial_state, "initial_state", inputs)
        outputs = self._states(inputs, state, None)
        return self._result(outputs, training), self._result(outputs[-1], training)

    def state_shape(self, batch_size: int) -> list[int]:
        """Returns the shape of the state.

        Args:
            batch_size: number of sequences.
        """
        return [batch_size, self._num_units]

    def _states(self, inputs: tf.Tensor, state: tf.Tensor, scores: Any) -> tf.Tensor:
        cell = cells.GRUCell(self._activation, self._recurrent_activation, self._reset_after)
        kernel = self._weight(self.kernel)
        of_inputs, of_state = (tf.reshape(bias, [-1]) for bias in self._biases())
        return cells.gru(cell, inputs, kernel, of_inputs, of_state, state, scores)

    def _bias_shape(self) -> list[int]:
        between = [2] if self._reset_after else []
        return [self.GATES, *between, self._num_units]

    def _biases(self) -> list[tf.Tensor]:
        """Returns the biases of the inputs' and the state's product, `[3, units]`."""
        biases = self._weight(self.biases)
        return tf.unstack(biases, axis=1) if self._reset_after else [biases, tf.zeros_like(biases)]


class PopnnDynamicGRU(PopnnGRU):
    """A GRU over sequences of different lengths; arguments as of `PopnnGRU`.

    In place of `biases`, which exists but has no effect, are `bias_r_u`, `[2, units]`, ones at
    first, for z and r in this order, and `bias_c`, `[1, units]`, zeros at first, for the candidate.
    With `reset_after` they are added to the inputs' product and to the state's.
    """

    def call(  # type: ignore[override]  # the reference adds arguments
        self,
        inputs: Any,
        seq_len: Any,
        initial_state: Any = None,
        training: bool = True,
        time_major: bool = True,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs the layer.

        Args:
            inputs: `[time, batch, input size]`, cast to the type of the layer.
            seq_len: lengths of the sequences, integers `[batch]`, at most the time steps.
            initial_state: `[batch, units]`; zeros by default.
            training: whether the results have a gradient.
            time_major: False if the inputs are `[batch, time, input size]`.

        Returns:
            The outputs, always `[time, batch, units]`, zeros after the end of a sequence, and the
            state after the end of each, `[batch, units]`.

        Raises:
            ValueError: an argument has another shape or type.
            tf.errors.InvalidArgumentError: `seq_len` has another shape, or is out of range.
        """
        return self._run(inputs, seq_len, None, initial_state, training, time_major)

    def _make_variables(self) -> None:
        super()._make_variables()
        ones, zeros = tf.compat.v1.ones_initializer(), tf.compat.v1.zeros_initializer()
        self.bias_r_u = self._variable("bias_r_u", [2, self._num_units], ones)
        self.bias_c = self._variable("bias_c", [1, self._num_units], zeros)

    def _biases(self) -> list[tf.Tensor]:
        biases = tf.concat([self._weight(self.bias_r_u), self._weight(self.bias_c)], 0)
        return [biases, biases if self._reset_after else tf.zeros_like(biases)]

    def _run(
        self,
        inputs: Any,
        seq_len: Any,
        attention_score: Any,
        initial_state: Any,
        training: bool,
        time_major: bool,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        inputs = self._inputs(inputs, time_major)
        steps, batch = inputs.shape[:2]
        lengths = arguments.sequence_lengths(seq_len, batch, steps)
        state = self._state(initial_state, "initial_state", inputs)
        valid = recurrence.valid(inputs, lengths)
        scores = None
        if attention_score is not None:
            scores = self._scores(attention_score, inputs, time_major)
            scores = recurrence.without_padding(scores, valid)
        inputs = recurrence.without_padding(inputs, valid)
        outputs = self._states(inputs, state, scores)
        final = recurrence.last(state, outputs, lengths)
        outputs = recurrence.without_padding(outputs, valid)
        return self._result(outputs, training), self._result(final, training)

    def _scores(self, value: Any, inputs: tf.Tensor, time_major: bool) -> tf.Tensor:
        shape = inputs.shape[:2] if time_major else inputs.shape[1::-1]
        scores = arguments.attention_scores(value, shape, self._plain_dtype)
        scores = tf.cast(scores, self._compute_type)
        return scores if time_major else tf.transpose(scores)


class PopnnAUGRU(PopnnDynamicGRU):
    """A GRU whose update gate is multiplied by 1 - the attention score at each time step.

    Arguments and variables are those of `PopnnDynamicGRU`.
    """

    def call(  # type: ignore[override]  # the reference adds arguments
        self,
        inputs: Any,
        seq_len: Any,
        attention_score: Any,
        initial_state: Any = None,
        training: bool = True,
        time_major: bool = True,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs the layer; see `PopnnDynamicGRU.call` for the other arguments.

        Args:
            inputs: `[time, batch, input size]`, cast to the type of the layer.
            seq_len: lengths of the sequences.
            attention_score: `[time, batch]`; `[batch, time]` if `time_major` is False.
            initial_state: `[batch, units]`; zeros by default.
            training: whether the results have a gradient.
            time_major: False if the inputs are `[batch, time, input size]`.

        Returns:
            The outputs, always `[time, batch, units]`, and the state after each sequence.

        Raises:
            ValueError: an argument has another shape or type.
            tf.errors.InvalidArgumentError: `seq_len` has another shape, or is out of range.
        """
        if attention_score is None:
            raise ValueError("attention_score must be a tensor. Received: None")
        return self._run(inputs, seq_len, attention_score, initial_state, training, time_major)
