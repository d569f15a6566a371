# Made by stubs/make_stubs.py.

from tensorflow_ipu.optimizers.cross_replica_optimizer import *
