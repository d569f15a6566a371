# Made by stubs/make_stubs.py.

from tensorflow_ipu.optimizers.sharded_optimizer import *
