# Made by stubs/make_stubs.py.

from tensorflow_ipu.horovod.ipu_horovod_strategy import *
