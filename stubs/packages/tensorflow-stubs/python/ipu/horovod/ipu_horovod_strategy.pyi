# Made by stubs/make_stubs.py.

from tensorflow_ipu.distributed.horovod.ipu_horovod_strategy import *
