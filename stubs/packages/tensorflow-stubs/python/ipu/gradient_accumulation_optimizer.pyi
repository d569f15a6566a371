# Made by stubs/make_stubs.py.

from tensorflow_ipu.optimizers.gradient_accumulation_optimizer import *
