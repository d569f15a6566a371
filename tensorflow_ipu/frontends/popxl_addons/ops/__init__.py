"""Ops composed of PopXL ops: the module `popxl_addons.ops`."""

from tensorflow_ipu.frontends.popxl_addons import compiler_hints as linear_layout
from tensorflow_ipu.frontends.popxl_addons import optimizers as grad_reduce_square_add
from tensorflow_ipu.frontends.popxl_addons.ops import (
    compressed_weights as group_quantize_decompress,
)
from tensorflow_ipu.frontends.popxl_addons.ops import compressed_weights as static_sparse_ops
from tensorflow_ipu.frontends.popxl_addons.ops import float8 as fp8_mse_scale
from tensorflow_ipu.frontends.popxl_addons.ops import float8 as fp8_utils
from tensorflow_ipu.frontends.popxl_addons.ops import losses as cross_entropy_sharded_loss
from tensorflow_ipu.frontends.popxl_addons.ops import losses as cross_entropy_sharded_wr_loss
from tensorflow_ipu.frontends.popxl_addons.ops import rotary_pos_embed
from tensorflow_ipu.frontends.popxl_addons.ops import tensor_parallel as layer_norm_distributed
from tensorflow_ipu.frontends.popxl_addons.ops import tensor_parallel as replicated_all_reduce_TP
from tensorflow_ipu.frontends.popxl_addons.ops import (
    tensor_parallel as replicated_strided_collectives,
)
from tensorflow_ipu.frontends.popxl_addons.ops.float8 import fp8_amax_scale
from tensorflow_ipu.frontends.popxl_addons.ops.losses import cross_entropy, cross_entropy_with_grad
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
