"""The addons of PopXL: layers, training and schedules on top of it; the package `popxl_addons`.

It is plain Python on what `popxl` offers: a `Module` makes a graph together with factories of the
variables that the graph takes as inputs (`variable_factory.py`), a `GraphWithNamedArgs` knows these
inputs by name and binds them (`graph.py`), and `transforms/` makes graphs of graphs.
"""

from tensorflow_ipu.frontends.popxl_addons import (
    ops,
    transforms,
)
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree
from tensorflow_ipu.frontends.popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.graph_cache import GraphCache, function
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors, TensorMap
from tensorflow_ipu.frontends.popxl_addons.ops import (
    cross_entropy,
    cross_entropy_with_grad,
    host_load,
    host_store,
)
from tensorflow_ipu.frontends.popxl_addons.transforms import autodiff, autodiff_with_accumulation
from tensorflow_ipu.frontends.popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

# The commit of the original that a package was built from: there is none.
GIT_COMMIT = None
