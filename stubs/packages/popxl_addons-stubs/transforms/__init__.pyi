# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.transforms import *
from popxl_addons.transforms import autodiff as autodiff
from popxl_addons.transforms import batch_serialisation as batch_serialisation
from popxl_addons.transforms import pipelining as pipelining
from popxl_addons.transforms import recompute as recompute
from popxl_addons.transforms import repeat_graph as repeat_graph
