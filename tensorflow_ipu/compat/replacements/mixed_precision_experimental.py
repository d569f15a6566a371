"""`tf.keras.mixed_precision.experimental`, and the modules of its names in TensorFlow 1.15."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compat.replacements.mixed_precision import LossScaleOptimizer

#: Programs import modules below it, which are in the tables.
__path__: list[str] = []

Policy = tf.keras.mixed_precision.Policy
global_policy = tf.keras.mixed_precision.global_policy
set_policy = tf.keras.mixed_precision.set_global_policy
DynamicLossScale = tf.compat.v1.mixed_precision.DynamicLossScale
FixedLossScale = tf.compat.v1.mixed_precision.FixedLossScale
LossScale = tf.compat.v1.mixed_precision.LossScale

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleOptimizer",
    "Policy",
    "global_policy",
    "set_policy",
]
