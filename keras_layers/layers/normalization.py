"""Keras layers that normalize each sample by itself: group, instance and layer norm."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import normalization_ops

Initializer = Any  # whatever `tf.keras.initializers.get` takes


@registered
class GroupNormalization(tf.keras.layers.Layer):
    """Normalizes each sample over groups of its channels (https://arxiv.org/abs/1803.08494).

    There are no moving statistics: training and inference compute the same. The weights, `gamma`
    and `beta` `[channels]` in this order, are those of `tf.keras.layers.GroupNormalization`; with
    `strided_channel_grouping=False` so are the results. Statistics are computed in float32. The
    result has the type of the input, whatever that of the weights.

    Args:
        dtype: type of the weights. None: the type of Keras's policy.
        groups: how many groups; has to divide the number of channels.
        channels_axis: of the channels: the last one, or 1.
        center: whether there is the weight `beta`.
        scale: whether there is the weight `gamma`.
        epsilon: added to the variance.
        beta_initializer: of `beta`; zeros by default.
        gamma_initializer: of `gamma`; ones by default.
        strided_channel_grouping: whether channel c is in the group `c % groups`. If False, groups
            are blocks of neighbouring channels, as in other frameworks.
        trainable: whether the weights are trained.
        name: name of the layer.
        **kwargs: other arguments of `tf.keras.layers.Layer`, such as `input_shape`.

    Raises:
        ValueError: When it is built, if the rank or the number of channels is not known, the rank
            is less than 2, `channels_axis` is neither 1 nor the last, or `groups` does not divide
            the channels.
    """

    def __init__(
        self,
        dtype: Any = tf.float32,
        groups: int = 2,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: Initializer = None,
        gamma_initializer: Initializer = None,
        strided_channel_grouping: bool = True,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        # Inputs keep their type: it need not be that of the weights.
        kwargs.setdefault("autocast", False)
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self.groups = groups
        self.channels_axis = channels_axis
        self.center = center
        self.scale = scale
        self.epsilon = epsilon
        self.beta_initializer = tf.keras.initializers.get(beta_initializer or "zeros")
        self.gamma_initializer = tf.keras.initializers.get(gamma_initializer or "ones")
        self.strided_channel_grouping = strided_channel_grouping
        self.gamma: tf.Variable | None = None
        self.beta: tf.Variable | None = None

    def build(self, input_shape: Any) -> None:
        """Makes the weights.

        Args:
            input_shape: shape of the input.
        """
        channels = self._grouping(tf.TensorShape(input_shape)).channels
        normalization_ops.checked_epsilon(self.epsilon, self.name)
        if self.scale:
            self.gamma = self.add_weight("gamma", [channels], initializer=self.gamma_initializer)
        if self.center:
            self.beta = self.add_weight("beta", [channels], initializer=self.beta_initializer)
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None) -> tf.Tensor:
        """Normalizes the inputs.

        Args:
            inputs: `[batch, ..., channels]` or `[batch, channels, ...]`, float16 or float32.
            training: has no effect.

        Returns:
            A tensor of the shape and type of the input.

        Raises:
            TypeError: If the input is neither float16 nor float32.
        """
        del training
        inputs = normalization_ops.float_tensor(type(self).__name__, inputs)
        return normalization_ops.normalize(
            inputs, self.gamma, self.beta, self._grouping(inputs.shape), self.epsilon
        )

    def _grouping(self, shape: tf.TensorShape) -> normalization_ops.Grouping:
        return normalization_ops.grouping_of(
            shape, self.channels_axis, self.groups, self.strided_channel_grouping, self.name
        )

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Returns the shape of the result, which is the shape of the input."""
        return tf.TensorShape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make the same layer."""
        return {
            **super().get_config(),
            "groups": self.groups,
            "channels_axis": self.channels_axis,
            "center": self.center,
            "scale": self.scale,
            "epsilon": self.epsilon,
            "beta_initializer": tf.keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": tf.keras.initializers.serialize(self.gamma_initializer),
            "strided_channel_grouping": self.strided_channel_grouping,
        }


@registered
class InstanceNormalization(GroupNormalization):
    """Normalizes each channel of each sample (https://arxiv.org/abs/1607.08022).

    It is `GroupNormalization` with as many groups as channels. The weights and results are those of
    `tf.keras.layers.GroupNormalization(groups=-1)`.

    Args:
        dtype: type of the weights. None: the type of Keras's policy.
        channels_axis: of the channels: the last one, or 1.
        center: whether there is the weight `beta`.
        scale: whether there is the weight `gamma`.
        epsilon: added to the variance.
        beta_initializer: of `beta`; zeros by default.
        gamma_initializer: of `gamma`; ones by default.
        trainable: whether the weights are trained.
        name: name of the layer.
        **kwargs: other arguments of `tf.keras.layers.Layer`.
    """

    def __init__(
        self,
        dtype: Any = tf.float32,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: Initializer = None,
        gamma_initializer: Initializer = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dtype=dtype,
            channels_axis=channels_axis,
            center=center,
            scale=scale,
            epsilon=epsilon,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            trainable=trainable,
            name=name,
            **kwargs,
        )

    def _grouping(self, shape: tf.TensorShape) -> normalization_ops.Grouping:
        return normalization_ops.grouping_of(shape, self.channels_axis, None, False, self.name)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make the same layer."""
        config = super().get_config()
        del config["groups"], config["strided_channel_grouping"]
        return config


@registered
class LayerNormalization(tf.keras.layers.LayerNormalization):
    """Normalizes over axes of the input (https://arxiv.org/abs/1607.06450).

    It is `tf.keras.layers.LayerNormalization`, weights and results alike, but for types: the result
    has the type of the input, whatever that of the weights. (`ipu.normalization_ops.layer_norm`
    is another thing: statistics over all axes but the batch.)

    Args:
        dtype: type of the weights. None: the type of Keras's policy.
        axis: the axis or axes to normalise over; the weights have their shape.
        epsilon: added to the variance.
        center: whether there is the weight `beta`.
        scale: whether there is the weight `gamma`.
        beta_initializer: of `beta`.
        gamma_initializer: of `gamma`.
        trainable: whether the weights are trained.
        name: name of the layer.
        **kwargs: other arguments of `tf.keras.layers.LayerNormalization`.
    """

    def __init__(
        self,
        dtype: Any = tf.float32,
        axis: int | list[int] | tuple[int, ...] = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Initializer = "zeros",
        gamma_initializer: Initializer = "ones",
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)
        super().__init__(
            axis=axis,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=beta_initializer or "zeros",
            gamma_initializer=gamma_initializer or "ones",
            trainable=trainable,
            name=name,
            dtype=dtype,
            **kwargs,
        )

    def build(self, input_shape: Any) -> None:
        """Makes the weights.

        Args:
            input_shape: shape of the input.
        """
        normalization_ops.checked_epsilon(self.epsilon, self.name)
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None) -> tf.Tensor:
        """Normalizes the inputs.

        Args:
            inputs: float16 or float32.
            training: has no effect.

        Returns:
            A tensor of the shape and type of the input.

        Raises:
            TypeError: If the input is neither float16 nor float32.
        """
        del training
        inputs = normalization_ops.float_tensor(type(self).__name__, inputs)
        return tf.cast(super().call(inputs), inputs.dtype)


GroupNorm = GroupNormalization
InstanceNorm = InstanceNormalization
LayerNorm = LayerNormalization
