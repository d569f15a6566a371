# Made by stubs/make_stubs.py.

from tensorflow_ipu.distributed.horovod.ipu_multi_replica_strategy import *
