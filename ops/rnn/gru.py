"""GRU layers of `ipu.rnn_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops.rnn import arguments, cells
from tensorflow_ipu.ops.rnn import lengths as _rnn_lengths
from tensorflow_ipu.ops.rnn.activations import Activation
from tensorflow_ipu.ops.rnn.layers import PopnnRNN


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
        valid = _rnn_lengths.valid(inputs, lengths)
        scores = None
        if attention_score is not None:
            scores = self._scores(attention_score, inputs, time_major)
            scores = _rnn_lengths.without_padding(scores, valid)
        inputs = _rnn_lengths.without_padding(inputs, valid)
        outputs = self._states(inputs, state, scores)
        final = _rnn_lengths.last(state, outputs, lengths)
        outputs = _rnn_lengths.without_padding(outputs, valid)
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
