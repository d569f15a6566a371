# Made by stubs/make_stubs.py.

from tensorflow_ipu.distributed.popdist_strategy import *
