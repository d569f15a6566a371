"""Base of the Keras layers LSTM and GRU: what they add to those of stock Keras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import smart_cond

from tensorflow_ipu.ops import rand_ops
from tensorflow_ipu.ops.rnn import arguments as _rnn_arguments
from tensorflow_ipu.ops.rnn.arguments import (
    ACTIVATIONS,
    LINEAR,
    RECURRENT_ACTIVATIONS,
    activation_name,
)

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
        """Returns what the layer returns, from all outputs and the final states."""
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
