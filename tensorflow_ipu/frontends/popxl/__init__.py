"""PopXL: programs as graphs that are built op by op; the package `popxl`.

How it is built, from the bottom up:

* `core/` is below the graph IR: `kinds.py` is the table of ops, with one record for each
  (`OpKind`): the rule for shapes and types, the computation in TensorFlow, the gradient, and the
  inputs that it modifies. `views.py` has shared storage, `scopes.py` the open contexts.
* `ir.py` has the classes `Tensor`, `Op`, `Graph` and `Ir`. `tensor.py`, `streams.py` and
  `context.py` make and find them; `building.py` adds ops to the current graph, and checks them.
* `ops/` has a module for each family: records, and the functions that programs call. To add an op,
  write its shape rule, register an `OpKind` with it and a function of TensorFlow tensors, write the
  public function, which calls `building.add`, name it in `ops/__init__.py`, and add a `Case` to the
  family's tests (`tests/support/popxl/popxl_cases.py`), which compares values and gradients.
* `transforms/` makes graphs of graphs. Gradients are ops of a gradient graph; what they compute and
  read is derived from TensorFlow's gradient of the op (`lowering/gradients.py`).
* `lowering/` puts the main graph into one Cluster: called graphs become functions that the program
  has once, loops and conditionals those of TensorFlow, streams feeds, and variables variables. An
  op that modifies a tensor makes a new value, which all tensors that share the storage then have
  (`lowering/graphs.py`), so no value of the program ever changes.
* Replicas: `replica_grouping.py` says which belong together, `ops/collectives/` has what they do
  together. What each has of its own, in groups of variables, remote buffers (`remote_buffers.py`)
  and shards (`remote_variables.py`), comes from the host and goes there in parts of the same
  program (`lowering/weights.py`); its `HostLayout` divides the host's copy among groups.
* `session.py` attaches a device (`devices.py`), launches the Cluster, and moves variables and
  streams (`lowering/transfers.py`).

The rest of the package knows nothing of PopXL.
"""

from tensorflow_ipu.frontends.popxl import (
    context,
    dtypes,
    errors,
    ops,
    random_seed,
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
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
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
from tensorflow_ipu.frontends.popxl.random_seed import create_seeds
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
