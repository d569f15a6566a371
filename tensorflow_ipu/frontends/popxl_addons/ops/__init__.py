"""Ops composed of PopXL ops: the module `popxl_addons.ops`."""

from tensorflow_ipu.frontends.popxl_addons.ops import (
    cross_entropy_sharded_loss,
    cross_entropy_sharded_wr_loss,
    fp8_mse_scale,
    fp8_utils,
    grad_reduce_square_add,
    group_quantize_decompress,
    layer_norm_distributed,
    linear_layout,
    replicated_all_reduce_TP,
    replicated_strided_collectives,
    rotary_pos_embed,
    static_sparse_ops,
)
from tensorflow_ipu.frontends.popxl_addons.ops.cross_entropy import (
    cross_entropy,
    cross_entropy_with_grad,
)
from tensorflow_ipu.frontends.popxl_addons.ops.fp8_amax_scale import fp8_amax_scale
from tensorflow_ipu.frontends.popxl_addons.ops.streams import host_load, host_store

__all__ = [
    "cross_entropy",
    "cross_entropy_sharded_loss",
    "cross_entropy_sharded_wr_loss",
    "cross_entropy_with_grad",
    "fp8_amax_scale",
    "fp8_mse_scale",
    "fp8_utils",
    "grad_reduce_square_add",
    "group_quantize_decompress",
    "host_load",
    "host_store",
    "layer_norm_distributed",
    "linear_layout",
    "replicated_all_reduce_TP",
    "replicated_strided_collectives",
    "rotary_pos_embed",
    "static_sparse_ops",
]
