"""Keras layers LSTM and GRU.

They are stock Keras layers that compute in another way: given the same weights they have the same
results. `set_weights(stock_layer.get_weights())` takes weights over, and the other way round. A
layer of `ipu.rnn_ops` has the same gates in the same order: its `kernel` is
`concat([kernel, recurrent_kernel], 0)`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.layers import rnn_base
from tensorflow_ipu.keras_layers.layers.rnn_base import LSTMStateTuple, PopnnLayer
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops.rnn import cells as _rnn_cells

__all__ = ["GRU", "LSTM", "PopnnGRU", "PopnnLSTM"]


@registered
class PopnnLSTM(PopnnLayer, tf.keras.layers.LSTM):
    """An LSTM; arguments and results are those of `tf.keras.layers.LSTM`, but for the following.

    Gates are in the order i, f, candidate, o. `use_bias=False`, regularizers, constraints,
    `recurrent_dropout`, `implementation`, `go_backwards`, `unroll` and masks are not supported.

    Args:
        units: number of units.
        activation: tanh, relu, softmax, sigmoid, hard_sigmoid, or None for none.
        recurrent_activation: tanh, softmax, sigmoid, hard_sigmoid, or None for none.
        dropout: which part of the inputs is dropped in training, with one mask for all time steps.
        dropout_seed: two integers, which fix the mask.
        partials_dtype: type in which sums are accumulated. A float16 layer with float32 partial
            results computes in float32 and rounds its results.
        seed: seed of the initializers of the two kernels.

    Raises:
        ValueError: an argument has a value that is not supported.
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        dropout_seed: Any = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 1,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        arguments = _stock_arguments(locals())
        super().__init__(**arguments)
        self._set_own(stateful, dropout_seed, seed, partials_dtype)

    def __call__(
        self, inputs: Any, initial_state: Any = None, constants: Any = None, **kwargs: Any
    ) -> Any:
        """Runs the layer as `call` says; Keras makes the variables before."""
        if isinstance(initial_state, LSTMStateTuple):
            initial_state = [initial_state.h, initial_state.c]
        return super().__call__(inputs, initial_state, constants, **kwargs)

    def build(self, input_shape: Any) -> None:
        """Makes the variables.

        Args:
            input_shape: shape of the inputs, with 3 dimensions, the last one known.

        Raises:
            ValueError: it is another.
        """
        super().build(_input_shape(input_shape))

    def call(
        self, inputs: Any, training: Any = None, initial_state: Any = None, mask: Any = None
    ) -> Any:
        """Runs the layer.

        Args:
            inputs: `[batch, time, input size]`; with `time_major` `[time, batch, input size]`.
            training: whether dropout is applied. By default as Keras says: in `fit`.
            initial_state: an `LSTMStateTuple`, or a list of h and c as in Keras, `[batch, units]`
                each; zeros by default.
            mask: None.

        Returns:
            The last output, `[batch, units]`, or with `return_sequences` all of them in the layout
            of the inputs. With `return_state` a list of that, h and c, as in Keras.

        Raises:
            NotImplementedError: there is a mask.
            ValueError: the states have another shape.
        """
        rnn_base.check_mask(type(self).__name__, mask)
        if isinstance(initial_state, LSTMStateTuple):
            initial_state = [initial_state.h, initial_state.c]
        inputs, states, _ = self._process_inputs(inputs, initial_state, None)
        inputs, (h, c), dtype = self._prepared(inputs, states, training)
        cell = _rnn_cells.LSTMCell(
            rnn_base.name_of(self.activation), rnn_base.name_of(self.recurrent_activation)
        )
        bias = tf.cast(self.biases, dtype)
        outputs, cells = _rnn_cells.lstm(cell, inputs, self._kernels(dtype), bias, h, c)
        return self._results(outputs, [outputs[-1], cells[-1]])

    def state_shape(self, batch_size: int) -> tuple[list[int], list[int]]:
        """Returns the shapes of the two states.

        Args:
            batch_size: number of sequences.
        """
        return [batch_size, self.units], [batch_size, self.units]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with, as plain Python values."""
        return {**super().get_config(), **self._own_config()}


@registered
class PopnnGRU(PopnnLayer, tf.keras.layers.GRU):
    """A GRU; arguments and results are those of `tf.keras.layers.GRU`, but as in `PopnnLSTM`.

    Gates are in the order z (update), r (reset), candidate.

    Args:
        units: number of units.
        activation: tanh, relu, softmax, sigmoid, hard_sigmoid, or None for none.
        recurrent_activation: tanh, softmax, sigmoid, hard_sigmoid, or None for none.
        dropout: which part of the inputs is dropped in training, with one mask for all time steps.
        dropout_seed: two integers, which fix the mask.
        reset_after: whether the reset gate is applied after the product of state and weights. The
            biases are then `[2, 3 * units]`: of the inputs' product and of the state's.
        seed: seed of the initializers of the two kernels.
        partials_dtype: type in which sums are accumulated; see `PopnnLSTM`.

    Raises:
        ValueError: an argument has a value that is not supported.
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        dropout_seed: Any = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 1,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        seed: int | None = None,
        partials_dtype: Any = tf.float32,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        arguments = _stock_arguments(locals())
        super().__init__(**arguments)
        self._set_own(stateful, dropout_seed, seed, partials_dtype)

    def build(self, input_shape: Any) -> None:
        """Makes the variables; see `PopnnLSTM.build`."""
        super().build(_input_shape(input_shape))

    def call(
        self, inputs: Any, training: Any = None, initial_state: Any = None, mask: Any = None
    ) -> Any:
        """Runs the layer; see `PopnnLSTM.call`. There is one state, `[batch, units]`."""
        rnn_base.check_mask(type(self).__name__, mask)
        if tf.is_tensor(initial_state):
            initial_state = [initial_state]
        inputs, states, _ = self._process_inputs(inputs, initial_state, None)
        inputs, (h,), dtype = self._prepared(inputs, states, training)
        cell = _rnn_cells.GRUCell(
            rnn_base.name_of(self.activation),
            rnn_base.name_of(self.recurrent_activation),
            self.cell.reset_after,
        )
        bias = tf.cast(self.biases, dtype)
        both = bias if self.cell.reset_after else tf.stack([bias, tf.zeros_like(bias)])
        outputs = _rnn_cells.gru(cell, inputs, self._kernels(dtype), both[0], both[1], h)
        return self._results(outputs, [outputs[-1]])

    def state_shape(self, batch_size: int) -> list[int]:
        """Returns the shape of the state.

        Args:
            batch_size: number of sequences.
        """
        return [batch_size, self.units]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with, as plain Python values."""
        return {**super().get_config(), **self._own_config()}


LSTM = PopnnLSTM
GRU = PopnnGRU

# What constructors do not pass on as it is.
_OWN_ARGUMENTS = (
    *("self", "__class__", "kwargs"),
    *("dropout", "dropout_seed", "seed", "partials_dtype", "stateful"),
)


def _stock_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns what a constructor passes on to the stock layer, from its local variables."""
    stock = {name: value for name, value in arguments.items() if name not in _OWN_ARGUMENTS}
    stock.update(arguments["kwargs"])
    layer = type(arguments["self"]).__name__
    return rnn_base.stock_arguments(layer, arguments["dropout"], arguments["seed"], stock)


def _input_shape(value: Any) -> tuple[int | None, ...]:
    """Returns the shape of the inputs, checked; initial states may follow them in a list."""
    several = isinstance(value, list) and isinstance(value[0], (tuple, list, tf.TensorShape))
    shape = tf.TensorShape(value[0] if several else value)
    if shape.rank != 3 or shape[-1] is None:
        raise ValueError(
            "Expecting input_shape with 3 dims, the last of them known. Received: "
            f"input_shape={shape}"
        )
    return tuple(shape)
