"""Layer normalization over replicas; `popxl_addons.ops.layer_norm_distributed`."""

from tensorflow_ipu.frontends.popxl_addons.ops.layer_norm_distributed.layer_norm_distributed import (  # noqa: E501
    layer_norm_distributed,
)

__all__ = [
    "layer_norm_distributed",
]
