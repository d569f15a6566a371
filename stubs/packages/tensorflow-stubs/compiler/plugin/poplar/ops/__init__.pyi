# Made by stubs/make_stubs.py.

from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops as gen_ipu_ops
