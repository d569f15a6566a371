# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops import *
from popxl_addons.ops import cross_entropy_sharded_loss as cross_entropy_sharded_loss
from popxl_addons.ops import cross_entropy_sharded_wr_loss as cross_entropy_sharded_wr_loss
from popxl_addons.ops import fp8_mse_scale as fp8_mse_scale
from popxl_addons.ops import fp8_utils as fp8_utils
from popxl_addons.ops import grad_reduce_square_add as grad_reduce_square_add
from popxl_addons.ops import group_quantize_decompress as group_quantize_decompress
from popxl_addons.ops import layer_norm_distributed as layer_norm_distributed
from popxl_addons.ops import linear_layout as linear_layout
from popxl_addons.ops import replicated_all_reduce_TP as replicated_all_reduce_TP
from popxl_addons.ops import replicated_strided_collectives as replicated_strided_collectives
from popxl_addons.ops import rotary_pos_embed as rotary_pos_embed
from popxl_addons.ops import static_sparse_ops as static_sparse_ops
from popxl_addons.ops import streams as streams
