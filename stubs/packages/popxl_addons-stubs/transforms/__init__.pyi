# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.transforms import *
from popxl_addons.transforms import available_memory_proportion as available_memory_proportion
from popxl_addons.transforms import batch_serialisation as batch_serialisation
from popxl_addons.transforms import pipelining as pipelining
from popxl_addons.transforms import recomputation as recomputation
from popxl_addons.transforms import repeat_graph as repeat_graph
from popxl_addons.transforms import use_fc_pass as use_fc_pass
