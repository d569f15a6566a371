"""PopXL: programs as graphs that are built op by op; the package `popxl`."""

from tensorflow_ipu.frontends.popxl import (
    context,
    dtypes,
    errors,
    ops,
    random_seed,
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
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.ir import Ir
from tensorflow_ipu.frontends.popxl.module import Module
from tensorflow_ipu.frontends.popxl.random_seed import create_seeds
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
