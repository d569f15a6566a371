# Made by stubs/make_stubs.py.

from tensorflow_ipu.ipu_infeed_queue import *
