# Made by stubs/make_stubs.py.

from tensorflow.compiler.plugin.poplar import driver as driver
from tensorflow.compiler.plugin.poplar import ops as ops
