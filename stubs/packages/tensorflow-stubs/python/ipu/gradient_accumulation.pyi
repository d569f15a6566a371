# Made by stubs/make_stubs.py.

from tensorflow_ipu.gradient_accumulation import *
