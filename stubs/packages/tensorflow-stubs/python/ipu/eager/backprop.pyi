# Made by stubs/make_stubs.py.

from tensorflow_ipu.eager.backprop import *
