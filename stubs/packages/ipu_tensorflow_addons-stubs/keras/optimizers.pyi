# Made by stubs/make_stubs.py.

from tensorflow_ipu.keras_layers.addon_optimizers import *
