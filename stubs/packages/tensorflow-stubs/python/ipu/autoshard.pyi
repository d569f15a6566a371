# Made by stubs/make_stubs.py.

from tensorflow_ipu.api.autoshard import *
