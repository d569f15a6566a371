# Made by stubs/make_stubs.py.

from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops as gen_ipu_ops
from tensorflow.compiler.plugin.poplar.ops import gen_popnn_ops as gen_popnn_ops
from tensorflow.compiler.plugin.poplar.ops import gen_popops_ops as gen_popops_ops
from tensorflow.compiler.plugin.poplar.ops import gen_poprand_ops as gen_poprand_ops
from tensorflow.compiler.plugin.poplar.ops import gen_poputil_ops as gen_poputil_ops
