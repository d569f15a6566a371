"""Keras optimizers for the IPU: the public module `ipu.keras.optimizers`.

They wrap Keras optimizers of both generations: `tf.keras.optimizers` and
`tf.keras.optimizers.legacy`.
"""

from tensorflow_ipu.keras_layers.optimizers.gradient_accumulation import (
    ALSGradientAccumulationOptimizer,
    GradientAccumulationOptimizer,
)
from tensorflow_ipu.keras_layers.optimizers.gradient_wrappers import (
    CrossReplicaOptimizer,
    MapGradientOptimizer,
    MapGradientOptimizerInvertedChaining,
)
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer
from tensorflow_ipu.keras_layers.optimizers.loss_scaling import (
    ALSOptimizer,
    ALSOptimizerAdam,
    ALSOptimizerRMSProp,
    ALSOptimizerSGD,
)

__all__ = [
    "ALSGradientAccumulationOptimizer",
    "ALSOptimizer",
    "ALSOptimizerAdam",
    "ALSOptimizerRMSProp",
    "ALSOptimizerSGD",
    "CrossReplicaOptimizer",
    "GradientAccumulationOptimizer",
    "IpuOptimizer",
    "MapGradientOptimizer",
    "MapGradientOptimizerInvertedChaining",
]
