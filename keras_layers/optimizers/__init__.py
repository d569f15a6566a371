"""Keras optimizers for the IPU: the public module `ipu.keras.optimizers`.

They wrap Keras optimizers of both generations: `tf.keras.optimizers` and
`tf.keras.optimizers.legacy`.
"""

from tensorflow_ipu.keras_layers.optimizers.als_optimizer import ALSOptimizer
from tensorflow_ipu.keras_layers.optimizers.als_variants import (
    ALSOptimizerAdam,
    ALSOptimizerRMSProp,
    ALSOptimizerSGD,
)
from tensorflow_ipu.keras_layers.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from tensorflow_ipu.keras_layers.optimizers.gradient_accumulation_optimizer import (
    ALSGradientAccumulationOptimizer,
    GradientAccumulationOptimizer,
)
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer
from tensorflow_ipu.keras_layers.optimizers.map_gradient_optimizer import (
    MapGradientOptimizer,
    MapGradientOptimizerInvertedChaining,
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
