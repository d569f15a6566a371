# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops import all_to_all_op as all_to_all_op
from tensorflow_ipu.ops import application_compile_op as application_compile_op
from tensorflow_ipu.ops import control_flow_ops as control_flow_ops
from tensorflow_ipu.ops import cross_replica_ops as cross_replica_ops
from tensorflow_ipu.ops import custom_ops as custom_ops
from tensorflow_ipu.ops import embedded_runtime as embedded_runtime
from tensorflow_ipu.ops import embedding_ops as embedding_ops
from tensorflow_ipu.ops import f8_ops as f8_ops
from tensorflow_ipu.ops import functional_ops as functional_ops
from tensorflow_ipu.ops import grad_util_ops as grad_util_ops
from tensorflow_ipu.ops import image_ops as image_ops
from tensorflow_ipu.ops import internal_ops as internal_ops
from tensorflow_ipu.ops import math_ops as math_ops
from tensorflow_ipu.ops import nn_ops as nn_ops
from tensorflow_ipu.ops import normalization_ops as normalization_ops
from tensorflow_ipu.ops import pipelining_ops as pipelining_ops
from tensorflow_ipu.ops import rand_ops as rand_ops
from tensorflow_ipu.ops import reduce_scatter_op as reduce_scatter_op
from tensorflow_ipu.ops import replication_ops as replication_ops
from tensorflow_ipu.ops import rnn_ops as rnn_ops
from tensorflow_ipu.ops import slicing_ops as slicing_ops
from tensorflow_ipu.ops import statistics_ops as statistics_ops
from tensorflow_ipu.ops import summary_ops as summary_ops
from tensorflow_ipu.ops import vertex_edsl as vertex_edsl
from tensorflow_ipu.ops import within_replica_ops as within_replica_ops
