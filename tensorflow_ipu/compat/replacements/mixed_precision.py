"""`tf.keras.mixed_precision.experimental`, and the modules of its names in TensorFlow 1.15."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.import_hook.versions import keras2

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleOptimizer",
    "Policy",
    "global_policy",
    "set_policy",
]


# --- Loss scaling optimizer ---

_Stock: Any = keras2.module("mixed_precision.loss_scale_optimizer").LossScaleOptimizer

_v1 = tf.compat.v1.mixed_precision


class LossScaleOptimizer(_Stock):
    """A loss scaling optimizer whose constructor takes a loss scale as second argument.

    Args:
        optimizer: a Keras optimizer of the generation of TensorFlow 2.6
            (`tf.keras.optimizers.legacy`).
        loss_scale: a number, "dynamic", or a `FixedLossScale` or `DynamicLossScale`.
    """

    def __init__(self, optimizer: Any, loss_scale: Any) -> None:
        if not isinstance(optimizer, tf.keras.optimizers.legacy.Optimizer):
            raise ValueError(
                f'"optimizer" must be an instance of OptimizerV2, but got: {optimizer}. Of Keras '
                "2.15 it takes the classes of tf.keras.optimizers.legacy."
            )
        super().__init__(optimizer, **_arguments(loss_scale))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        config = super().get_config()
        scale: dict[str, Any] = {
            "class_name": "FixedLossScale",
            "config": {"loss_scale_value": config["initial_scale"]},
        }
        if config["dynamic"]:
            scale["class_name"] = "DynamicLossScale"
            scale["config"] = {
                "initial_loss_scale": config["initial_scale"],
                "increment_period": config["dynamic_growth_steps"],
                "multiplier": 2.0,
            }
        return {"optimizer": config["inner_optimizer"], "loss_scale": scale}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> LossScaleOptimizer:
        """Creates the optimizer from its configuration.

        Args:
            config: the result of `get_config`.
            custom_objects: classes by name, as everywhere in Keras.
        """
        rest = dict(config)
        scale = rest.pop("loss_scale")
        if isinstance(scale, dict):
            scale = getattr(_v1, scale["class_name"])(**scale["config"])
        optimizer = tf.keras.optimizers.deserialize(
            rest.pop("optimizer"), custom_objects=custom_objects, use_legacy_optimizer=True
        )
        return cls(optimizer, scale, **rest)


def _arguments(loss_scale: Any) -> dict[str, Any]:
    """Returns the arguments of the stock class for a loss scale."""
    if loss_scale == "dynamic":
        return {"dynamic": True}
    if isinstance(loss_scale, _v1.DynamicLossScale):
        if loss_scale.multiplier != 2:
            raise ValueError(
                "When passing a DynamicLossScale to LossScaleOptimizer, DynamicLossScale."
                f"multiplier must be 2. Got: {loss_scale}"
            )
        return {
            "dynamic": True,
            "initial_scale": loss_scale.initial_loss_scale,
            "dynamic_growth_steps": loss_scale.increment_period,
        }
    if isinstance(loss_scale, _v1.FixedLossScale):
        return {"dynamic": False, "initial_scale": loss_scale._loss_scale_value}
    if isinstance(loss_scale, (int, float)) and not isinstance(loss_scale, bool):
        return {"dynamic": False, "initial_scale": loss_scale}
    raise ValueError(
        'Expected "loss_scale" to be a number, "dynamic", a FixedLossScale or a DynamicLossScale. '
        f"Received: {loss_scale!r}."
    )


# --- Names of the module ---

#: Programs import modules below it, which are in the tables.
__path__: list[str] = []

Policy = tf.keras.mixed_precision.Policy
global_policy = tf.keras.mixed_precision.global_policy
set_policy = tf.keras.mixed_precision.set_global_policy
DynamicLossScale = tf.compat.v1.mixed_precision.DynamicLossScale
FixedLossScale = tf.compat.v1.mixed_precision.FixedLossScale
LossScale = tf.compat.v1.mixed_precision.LossScale
