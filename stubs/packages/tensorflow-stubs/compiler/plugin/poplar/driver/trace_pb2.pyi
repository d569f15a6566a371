# Made by stubs/make_stubs.py.

from tensorflow_ipu.configs.proto.trace_pb2 import *
