# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons import *
from popxl_addons import array_munging as array_munging
from popxl_addons import debugging as debugging
from popxl_addons import dot_tree as dot_tree
from popxl_addons import graph as graph
from popxl_addons import graph_cache as graph_cache
from popxl_addons import graph_common as graph_common
from popxl_addons import layers as layers
from popxl_addons import module as module
from popxl_addons import named_replica_grouping as named_replica_grouping
from popxl_addons import named_tensors as named_tensors
from popxl_addons import ops as ops
from popxl_addons import optimizers as optimizers
from popxl_addons import patterns as patterns
from popxl_addons import performance_utils as performance_utils
from popxl_addons import remote as remote
from popxl_addons import route_tensor as route_tensor
from popxl_addons import rts as rts
from popxl_addons import streams as streams
from popxl_addons import task_session as task_session
from popxl_addons import testing_utils as testing_utils
from popxl_addons import transforms as transforms
from popxl_addons import utils as utils
from popxl_addons import variable_factory as variable_factory
