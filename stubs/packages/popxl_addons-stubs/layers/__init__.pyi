# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.layers import *
from popxl_addons.layers import conv as conv
from popxl_addons.layers import embedding as embedding
from popxl_addons.layers import group_norm as group_norm
from popxl_addons.layers import layer_norm as layer_norm
from popxl_addons.layers import layer_norm_distributed as layer_norm_distributed
from popxl_addons.layers import linear as linear
from popxl_addons.layers import linear_fp8 as linear_fp8
from popxl_addons.layers import linear_gq as linear_gq
