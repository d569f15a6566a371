"""Keras layers LSTM and GRU.

They are stock Keras layers that compute in another way: given the same weights they have the same
results. `set_weights(stock_layer.get_weights())` takes weights over, and the other way round. A
layer of `ipu.rnn_ops` has the same gates in the same order: its `kernel` is
`concat([kernel, recurrent_kernel], 0)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import smart_cond

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import rand_ops
from tensorflow_ipu.ops.rnn import arguments as _rnn_arguments
from tensorflow_ipu.ops.rnn import cells as _rnn_cells
from tensorflow_ipu.ops.rnn.arguments import (
    ACTIVATIONS,
    LINEAR,
    RECURRENT_ACTIVATIONS,
    activation_name,
)

__all__ = ["GRU", "LSTM", "PopnnGRU", "PopnnLSTM"]


# --- Base ---

LSTMStateTuple = tf.compat.v1.nn.rnn_cell.LSTMStateTuple
# What the device cannot do, and the value that such arguments must have.
_UNSUPPORTED: Mapping[str, Any] = {
    "use_bias": True,
    "kernel_regularizer": None,
    "recurrent_regularizer": None,
    "bias_regularizer": None,
    "activity_regularizer": None,
    "kernel_constraint": None,
    "recurrent_constraint": None,
    "bias_constraint": None,
    "recurrent_dropout": 0,
    "implementation": 1,
    "go_backwards": False,
    "unroll": False,
}


def stock_arguments(
    layer: str, dropout: Any, seed: int | None, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Checks the arguments of a layer.

    Args:
        layer: name of the class, for errors.
        dropout: rate of the dropout of inputs.
        seed: seed of the initializers of both kernels, where they have none.
        arguments: all that the layer and the stock Keras layer take.

    Returns:
        The arguments for the stock layer.

    Raises:
        ValueError: an argument has a value that the device does not support.
    """
    for name, only in _UNSUPPORTED.items():
        if name in arguments and arguments[name] != only:
            raise ValueError(
                f"{layer} does not support {name}={arguments[name]!r}. Leave it at {only!r}, or "
                "use the layer of tf.keras."
            )
    _activation(arguments["activation"], "activation", ACTIVATIONS)
    _activation(arguments["recurrent_activation"], "recurrent_activation", RECURRENT_ACTIVATIONS)
    rand_ops.checked_rate(dropout)
    _rnn_arguments.unit_count(arguments["units"], "units")
    seeded = {
        name: _seeded(arguments[name], seed)
        for name in ("kernel_initializer", "recurrent_initializer")
    }
    made = {**arguments, **seeded, "dropout": dropout}
    # With Keras's behaviour of TensorFlow 1 a layer has no type before its first call.
    if made.get("dtype") is None and tf.keras.mixed_precision.global_policy().name == "_infer":
        made["dtype"] = tf.float32
    return made


def _activation(value: Any, argument: str, allowed: tuple[str, ...]) -> str:
    """Returns the name of an activation; None stands for none at all."""
    return LINEAR if value is None else activation_name(value, argument, (*allowed, LINEAR))


def _seeded(initializer: Any, seed: int | None) -> Any:
    """Returns an initializer with a seed, if it can have one and has none."""
    if seed is None:
        return initializer
    initializer = tf.keras.initializers.get(initializer)
    config: dict[str, Any] = getattr(initializer, "get_config", dict)()
    if "seed" not in config or config["seed"] is not None:
        return initializer
    return type(initializer).from_config({**config, "seed": seed})


class PopnnLayer:
    """Extends a stock recurrent layer of Keras.

    Its variables are those of the stock layer, in `cell`, so weights, checkpoints and `.h5` files
    can be exchanged with it.
    """

    cell: Any
    time_major: bool
    return_sequences: bool
    return_state: bool
    stateful: bool
    states: Any
    compute_dtype: str
    # The arguments that the stock layer does not have.
    _dropout_seed: Any
    _seed: int | None
    _partials_dtype: tf.DType

    @property
    def kernel(self) -> tf.Variable:
        """Weights of the inputs, `[input size, gates * units]`."""
        return self.cell.kernel

    @property
    def recurrent_kernel(self) -> tf.Variable:
        """Weights of the state, `[units, gates * units]`."""
        return self.cell.recurrent_kernel

    @property
    def biases(self) -> tf.Variable:
        """Biases, `[gates * units]`; of a GRU with `reset_after`, `[2, gates * units]`."""
        return self.cell.bias

    def _set_own(
        self, stateful: bool, dropout_seed: Any, seed: int | None, partials_dtype: Any
    ) -> None:
        # Not through the stock layer, which refuses stateful layers under every strategy. An
        # IPUStrategy has one set of variables, so they work.
        self.stateful = stateful
        self._dropout_seed = dropout_seed
        self._seed = seed
        self._partials_dtype = _rnn_arguments.float_type(partials_dtype, "partials_dtype")
        # A layer of another type fails here, not in the middle of a model.
        _rnn_arguments.float_type(self.compute_dtype, "dtype")

    def _own_config(self) -> dict[str, Any]:
        seed = self._dropout_seed
        seed = None if seed is None else [int(s) for s in tf.get_static_value(tf.constant(seed))]
        return {
            "dropout_seed": seed,
            "seed": self._seed,
            "partials_dtype": self._partials_dtype.name,
        }

    def _prepared(
        self, inputs: tf.Tensor, states: Any, training: Any
    ) -> tuple[tf.Tensor, list[tf.Tensor], tf.DType]:
        """Returns inputs (`[time, batch, input size]`), states, and the type to compute in."""
        layer_type = tf.as_dtype(self.compute_dtype)
        dtype = _rnn_arguments.computed_in(layer_type, self._partials_dtype)
        inputs = self._dropped(tf.cast(inputs, layer_type), training)
        inputs = inputs if self.time_major else tf.transpose(inputs, [1, 0, 2])
        units = self.cell.units
        checked = [
            _rnn_arguments.state(state, "initial_state", inputs.shape[1], units, layer_type)
            for state in states
        ]
        return tf.cast(inputs, dtype), [tf.cast(state, dtype) for state in checked], dtype

    def _dropped(self, inputs: tf.Tensor, training: Any) -> tf.Tensor:
        """Drops inputs in training, the same at all time steps."""
        if self.cell.dropout == 0:
            return inputs
        if training is None:
            training = tf.keras.backend.learning_phase()
        axis = 0 if self.time_major else 1

        def drop() -> tf.Tensor:
            ones = tf.ones_like(tf.gather(inputs, 0, axis=axis))
            mask = rand_ops.dropout(ones, self.cell.dropout, seed=self._dropout_seed)
            return inputs * tf.expand_dims(mask, axis)

        return smart_cond.smart_cond(training, drop, lambda: tf.identity(inputs))

    def _kernels(self, dtype: tf.DType) -> tf.Tensor:
        """Returns both kernels in one, `[input size + units, gates * units]`."""
        kernels = [tf.cast(self.kernel, dtype), tf.cast(self.recurrent_kernel, dtype)]
        return tf.concat(kernels, 0)

    def _results(self, outputs: tf.Tensor, states: list[tf.Tensor]) -> Any:
        """Selects the results of the layer from all outputs and the final states."""
        outputs, *states = (tf.cast(x, self.compute_dtype) for x in (outputs, *states))
        if self.stateful:
            pairs = zip(tf.nest.flatten(self.states), states)
            self.add_update(  # type: ignore[attr-defined]
                [tf.compat.v1.assign(old, tf.cast(new, old.dtype)) for old, new in pairs]
            )
        if not self.return_sequences:
            outputs = outputs[-1]
        elif not self.time_major:
            outputs = tf.transpose(outputs, [1, 0, 2])
        return [outputs, *states] if self.return_state else outputs


def check_mask(layer: str, mask: Any) -> None:
    """Checks that there is no mask.

    Raises:
        NotImplementedError: there is one.
    """
    if any(part is not None for part in tf.nest.flatten(mask)):
        raise NotImplementedError(
            f"{layer} does not support masks. Use ipu.rnn_ops.PopnnDynamicLSTM or PopnnDynamicGRU "
            "for sequences of different lengths."
        )


def name_of(activation: Any) -> str:
    """Returns the name of an activation of a stock layer, which has passed the checks."""
    return activation_name(activation, "activation", (*ACTIVATIONS, LINEAR))


@registered
class PopnnLSTM(PopnnLayer, tf.keras.layers.LSTM):
    """An LSTM with the arguments and results of `tf.keras.layers.LSTM`, but for the following.

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
        check_mask(type(self).__name__, mask)
        if isinstance(initial_state, LSTMStateTuple):
            initial_state = [initial_state.h, initial_state.c]
        inputs, states, _ = self._process_inputs(inputs, initial_state, None)
        inputs, (h, c), dtype = self._prepared(inputs, states, training)
        cell = _rnn_cells.LSTMCell(name_of(self.activation), name_of(self.recurrent_activation))
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
    """A GRU with the arguments and results of `tf.keras.layers.GRU`, but as in `PopnnLSTM`.

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
        check_mask(type(self).__name__, mask)
        if tf.is_tensor(initial_state):
            initial_state = [initial_state]
        inputs, states, _ = self._process_inputs(inputs, initial_state, None)
        inputs, (h,), dtype = self._prepared(inputs, states, training)
        cell = _rnn_cells.GRUCell(
            name_of(self.activation),
            name_of(self.recurrent_activation),
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
    """Returns the arguments of the stock layer's constructor, from its own local variables."""
    stock = {name: value for name, value in arguments.items() if name not in _OWN_ARGUMENTS}
    stock.update(arguments["kwargs"])
    layer = type(arguments["self"]).__name__
    return stock_arguments(layer, arguments["dropout"], arguments["seed"], stock)


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
