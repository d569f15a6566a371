# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl import *
from popxl import context as context
from popxl import dtypes as dtypes
from popxl import errors as errors
from popxl import fp8_utils as fp8_utils
from popxl import graph as graph
from popxl import ir as ir
from popxl import module as module
from popxl import ops as ops
from popxl import random_seed as random_seed
from popxl import replica_grouping as replica_grouping
from popxl import session as session
from popxl import streams as streams
from popxl import tensor as tensor
from popxl import tensor_location as tensor_location
from popxl import tensorlocation as tensorlocation
from popxl import testing as testing
from popxl import transforms as transforms
from popxl import typing_ as typing_
from popxl import utils as utils
