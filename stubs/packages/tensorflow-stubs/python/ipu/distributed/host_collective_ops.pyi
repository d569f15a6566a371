# Made by stubs/make_stubs.py.

from tensorflow_ipu.distributed.host_collective_ops import *
