"""Base of the layers of `ipu.rnn_ops`: variables, types, checks, sequence lengths."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from tensorflow_ipu.ops.rnn import arguments, recurrence
from tensorflow_ipu.ops.rnn.arguments import RECURRENT_ACTIVATIONS, Activation, activation_name
from tensorflow_ipu.util.short_repr import shows

tf1 = tf.compat.v1


class PopnnRNN(tf1.layers.Layer):  # type: ignore[name-defined]
    """A recurrent layer with one matrix for inputs and state.

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

    Raises:
        ValueError: an argument is none of these.
    """

    # How many gates the layer has.
    GATES: ClassVar[int]

    built: bool

    def __init__(
        self,
        num_units: int,
        dtype: Any,
        partials_dtype: Any,
        seed: int | None,
        weights_initializer: Any,
        bias_initializer: Any,
        activation: Activation,
        recurrent_activation: Activation,
        name: str | None,
        options: Any = None,
        options_bwd: Any = None,
    ) -> None:
        self._plain_dtype = arguments.float_type(dtype, "dtype")
        super().__init__(name=name, dtype=self._plain_dtype)
        self._num_units = arguments.unit_count(num_units, "num_units")
        self._partials_dtype = arguments.float_type(partials_dtype, "partials_dtype")
        self._compute_type = arguments.computed_in(self._plain_dtype, self._partials_dtype)
        self._activation = activation_name(activation, "activation")
        self._recurrent_activation = activation_name(
            recurrent_activation, "recurrent_activation", RECURRENT_ACTIVATIONS
        )
        self._kernel_initializer = _initializer(
            weights_initializer, tf1.glorot_uniform_initializer(seed)
        )
        self._bias_initializer = _initializer(bias_initializer, tf1.zeros_initializer())
        self._options = arguments.options(options, "options")
        self._options_bwd = arguments.options(options_bwd, "options_bwd")
        self._input_size: int | None = None

    __repr__ = shows(
        lambda self: {
            "num_units": self._num_units,
            "dtype": self._plain_dtype.name,
            "input_size": self._input_size,
            "name": self.name,
        }
    )

    @property
    def num_units(self) -> int:
        """Number of units."""
        return self._num_units

    @property
    def input_size(self) -> int:
        """Size of the inputs' last dimension.

        Raises:
            ValueError: the layer is not built.
        """
        if self._input_size is None:
            raise ValueError(f"input_size is unknown: {self._not_built()}")
        return self._input_size

    @property
    def canonical_weight_shape(self) -> list[int]:
        """Shape of the variable `kernel`.

        Raises:
            RuntimeError: the layer is not built.
        """
        return self._kernel_shape()

    @property
    def canonical_bias_shapes(self) -> list[int]:
        """Shape of the variable `biases`.

        Raises:
            RuntimeError: the layer is not built.
        """
        self._kernel_shape()
        return self._bias_shape()

    @property
    def saveable(self) -> Any:
        """Is not there.

        Raises:
            NotImplementedError: always; variables are saved like all others.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no saveable. Save its variables with tf.train.Saver."
        )

    @property
    def updates(self) -> list[tf.Operation]:
        """There are none; TensorFlow's base class warns where it looks for them itself."""
        return []

    def build(self, input_shape: Any) -> None:
        """Makes the variables, unless they exist.

        Args:
            input_shape: shape of the inputs; only the last dimension matters.

        Raises:
            ValueError: there are not 3 dimensions, or the last one is unknown.
        """
        if self.built:
            return
        shape = tf.TensorShape(input_shape)
        if shape.rank != 3:
            raise ValueError(
                f"Expecting input_shape with 3 dims, [time, batch, input size]. Received: {shape}"
            )
        if shape[-1] is None:
            raise ValueError(
                f"The last dimension of the inputs to {type(self).__name__} must be known. "
                f"Received: {shape}. Set it with tf.ensure_shape."
            )
        self._input_size = shape[-1]
        self._make_variables()
        self.built = True

    def _make_variables(self) -> None:
        self.kernel = self._variable("kernel", self._kernel_shape(), self._kernel_initializer)
        self.biases = self._variable("biases", self._bias_shape(), self._bias_initializer)

    def _variable(self, name: str, shape: list[int], initializer: Any) -> tf.Variable:
        return self.add_weight(
            name, shape, self._plain_dtype, initializer=initializer, use_resource=True
        )

    def _kernel_shape(self) -> list[int]:
        if self._input_size is None:
            raise RuntimeError(f"The shapes of variables are unknown: {self._not_built()}")
        return [self._input_size + self._num_units, self.GATES * self._num_units]

    def _bias_shape(self) -> list[int]:
        return [self.GATES, self._num_units]

    def _not_built(self) -> str:
        return f"{self.name} has not been built. Call it, or its build(), before."

    def _inputs(self, inputs: Any, time_major: bool = True) -> tf.Tensor:
        """Returns the inputs, `[time, batch, input size]`, in the type of computation."""
        inputs = tf.convert_to_tensor(inputs)
        if not inputs.shape.is_compatible_with([None, None, self.input_size]):
            raise ValueError(
                f"{self.name} was built for inputs of the size {self.input_size} in the last of 3 "
                f"dimensions. Received: inputs of the shape {inputs.shape}"
            )
        # In two steps, since float32 inputs of a float16 layer lose their precision.
        inputs = tf.cast(tf.cast(inputs, self._plain_dtype), self._compute_type)
        if not time_major:
            inputs = tf.transpose(inputs, [1, 0, 2])
        if inputs.shape[0] == 0:
            raise ValueError(f"inputs must have a time step. Received: shape {inputs.shape}")
        return inputs

    def _state(self, value: Any, name: str, inputs: tf.Tensor) -> tf.Tensor:
        """Returns an initial state, or zeros, `[batch, units]`, in the type of computation."""
        if value is None:
            return tf.zeros([tf.shape(inputs)[1], self._num_units], self._compute_type)
        state = arguments.state(value, name, inputs.shape[1], self._num_units, self._plain_dtype)
        return tf.cast(state, self._compute_type)

    def _weight(self, variable: tf.Variable) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(variable), self._compute_type)

    def _result(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        x = tf.cast(x, self._plain_dtype)
        return x if training else recurrence.without_gradient(x, type(self).__name__)


def _initializer(value: Any, default: Any) -> Any:
    """Returns an initializer that was given as one, as a name, as a value, or not at all."""
    if value is None:
        return default
    if isinstance(value, str):
        return tf.keras.initializers.get(value)
    return value if callable(value) else tf1.constant_initializer(value)
