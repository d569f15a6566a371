# Made by stubs/make_stubs.py.

from tensorflow_ipu.optimizers.map_gradient_optimizer import *
