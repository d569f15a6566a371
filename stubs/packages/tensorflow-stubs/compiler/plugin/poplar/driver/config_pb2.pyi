# Made by stubs/make_stubs.py.

from tensorflow_ipu.configs.proto.ipu_options_pb2 import *
