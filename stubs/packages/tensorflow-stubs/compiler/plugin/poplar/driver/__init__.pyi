# Made by stubs/make_stubs.py.

from tensorflow.compiler.plugin.poplar.driver import config_pb2 as config_pb2
from tensorflow.compiler.plugin.poplar.driver import trace_pb2 as trace_pb2
