"""PopXL: programs as graphs that are built op by op; the package `popxl`.

How it is built, from the bottom up:

* `core/` is below the graph IR. `kinds.py` is the op registry with a record for each op (`OpKind`):
  its shape rule, its computation in TensorFlow, its gradient, and the inputs that it modifies.
  `views.py` describes shared storage, `scopes.py` the open contexts.
* `ir.py` has the classes `Tensor`, `Op`, `Graph` and `Ir`. `tensor.py`, `streams.py` and
  `context.py` make and find them. `building.py` checks ops and adds them to the current graph.
* `ops/` has a module for each family: its records, and the functions that programs call. To add an
  op, write its shape rule, and register an `OpKind` with it and a function of TensorFlow tensors.
  Write the public function, which calls `building.add`, and name it in `ops/__init__.py`. Add a
  `Case` to the tests (`tests/support/popxl/popxl_cases.py`), which compares values and gradients.
* `transforms/` makes graphs of graphs. The ops of a gradient graph are derived from TensorFlow's
  gradient of each forward op (`lowering/gradients.py`).
* `lowering/` puts the main graph into one Cluster. Called graphs become functions of the program,
  and streams become feeds. An op that modifies a tensor makes a new value for all tensors that
  share its storage (`lowering/graphs.py`), so no value of the program ever changes.
* `replica_grouping.py` divides replicas into groups, and `ops/collectives/` has their collectives.
  Remote buffers (`remote_buffers.py`), shards (`remote_variables.py`) and variables of groups may
  differ between replicas. Parts of the program move them from and to the host
  (`lowering/weights.py`), whose copy `HostLayout` divides among groups.
* `session.py` attaches a device, launches the Cluster, and moves variables and streams
  (`lowering/transfers.py`).

The rest of the package knows nothing of PopXL.
"""

from tensorflow_ipu.frontends.common import errors
from tensorflow_ipu.frontends.cpp_ops import binding as _binding
from tensorflow_ipu.frontends.popxl import (
    context,
    dtypes,
    libraries,
    ops,
    tensor,
    transforms,
    utils,
)
from tensorflow_ipu.frontends.popxl.context import (
    debug_context_frame_offset,
    gcg,
    get_current_graph,
    get_ir,
    get_main_graph,
    gir,
    gmg,
    in_sequence,
    io_tiles,
    ipu,
    name_scope,
)
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.dtypes import (
    bool,  # noqa: A004
    complex64,
    complex128,
    double,
    dtype,
    float,  # noqa: A004
    float8_143,
    float8_152,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensorflow_ipu.frontends.popxl.ir import Graph, Ir
from tensorflow_ipu.frontends.popxl.module import Module
from tensorflow_ipu.frontends.popxl.ops import random as random_seed
from tensorflow_ipu.frontends.popxl.ops.random import create_seeds
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer, remote_buffer
from tensorflow_ipu.frontends.popxl.remote_variables import (
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,
    replica_sharded_variable,
)
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.session import Session
from tensorflow_ipu.frontends.popxl.streams import (
    DeviceToHostStream,
    HostToDeviceStream,
    d2h_stream,
    h2d_stream,
)
from tensorflow_ipu.frontends.popxl.tensor import (
    Constant,
    Tensor,
    TensorByRef,
    Variable,
    constant,
    graph_input,
    graph_output,
    variable,
)
from tensorflow_ipu.frontends.popxl.tensor_location import (
    ExecutionContext,
    ReplicatedTensorSharding,
    TensorLocation,
    TensorStorage,
    TileSet,
)

_binding.enable()
