# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.control_flow_ops import *
