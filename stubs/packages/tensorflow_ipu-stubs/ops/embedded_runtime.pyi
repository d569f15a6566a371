# Made by stubs/make_stubs.py.

from tensorflow_ipu.serving.embedded_runtime import *
