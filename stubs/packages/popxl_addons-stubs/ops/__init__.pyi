# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops import *
from popxl_addons.ops import grad_reduce_square_add as grad_reduce_square_add
from popxl_addons.ops import rotary_pos_embed as rotary_pos_embed
