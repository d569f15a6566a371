"""Layers: the module `popxl_addons.layers`."""

from tensorflow_ipu.frontends.popxl_addons.layers import (
    layer_norm_distributed,
    linear_fp8,
    linear_gq,
)
from tensorflow_ipu.frontends.popxl_addons.layers.conv import Conv2D
from tensorflow_ipu.frontends.popxl_addons.layers.embedding import Embedding
from tensorflow_ipu.frontends.popxl_addons.layers.group_norm import GroupNorm
from tensorflow_ipu.frontends.popxl_addons.layers.layer_norm import LayerNorm
from tensorflow_ipu.frontends.popxl_addons.layers.linear import Linear

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
