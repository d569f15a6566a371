# Made by stubs/make_stubs.py.

from tensorflow_ipu.distributed.ipu_strategy import *
