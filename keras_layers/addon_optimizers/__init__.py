"""Keras optimizers for the IPU: the public module `ipu_tensorflow_addons.keras.optimizers`.

They are of the generation `tf.keras.optimizers.legacy`. Other than the wrappers of
`ipu.keras.optimizers` they have rules of their own: with types for their state and their
arithmetic, and with one function of the program for all weights of a shape.
"""

from tensorflow_ipu.keras_layers.addon_optimizers.adam import AdamIpuOptimizer
from tensorflow_ipu.keras_layers.addon_optimizers.base import IpuOptimizerBase
from tensorflow_ipu.keras_layers.addon_optimizers.lamb import LAMBIpuOptimizer
from tensorflow_ipu.keras_layers.addon_optimizers.sgd import SGDIpuOptimizer

__all__ = ["AdamIpuOptimizer", "IpuOptimizerBase", "LAMBIpuOptimizer", "SGDIpuOptimizer"]
