# Made by stubs/make_stubs.py.

from tensorflow_ipu.horovod.ipu_multi_replica_strategy import *
