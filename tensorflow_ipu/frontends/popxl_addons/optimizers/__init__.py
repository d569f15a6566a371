"""Updates of variables by their gradients: the module `popxl_addons.optimizers`."""

from tensorflow_ipu.frontends.popxl_addons.optimizers.adam import AdamOptimizerStep

__all__ = ["AdamOptimizerStep"]
