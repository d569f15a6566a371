# Made by stubs/make_stubs.py.

from tensorflow_ipu.strategy.ipu_strategy import *
