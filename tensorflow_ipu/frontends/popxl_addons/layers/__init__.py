"""Layers: the module `popxl_addons.layers`."""

from tensorflow_ipu.frontends.popxl_addons.layers import linear as linear_fp8
from tensorflow_ipu.frontends.popxl_addons.layers import linear as linear_gq
from tensorflow_ipu.frontends.popxl_addons.layers import norms as layer_norm_distributed
from tensorflow_ipu.frontends.popxl_addons.layers.conv import Conv2D
from tensorflow_ipu.frontends.popxl_addons.layers.embedding import Embedding
from tensorflow_ipu.frontends.popxl_addons.layers.linear import Linear
from tensorflow_ipu.frontends.popxl_addons.layers.norms import GroupNorm, LayerNorm

__all__ = [
    "Conv2D",
    "Embedding",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "layer_norm_distributed",
    "linear_fp8",
    "linear_gq",
]
