# Made by stubs/make_stubs.py.

from tensorflow_ipu.api.eager.backprop import *
