"""Graphs, contexts, data, tensors, variables, buffers, groups and streams that are refused."""

from __future__ import annotations

import operator

import numpy as np
import popxl
from popxl import ops, utils

from tests.support.popxl.popxl_refusals import PE, Refused, elsewhere, f16, f32, graph_of, table

FLOAT8 = popxl.float8_143.as_numpy()
SPEC = popxl.TensorSpec((2,), popxl.float32)


def _in_sequence(mode):
    with popxl.in_sequence(mode):
        ops.exp(f32())


def _nothing_selected():
    main = popxl.gcg()
    main.__exit__(None, None, None)
    try:
        popxl.gir()
    finally:
        main.__enter__()


def _mixed(**kw):
    return list(kw.values())


def _twice(x):
    popxl.graph_output(x)
    return x


def _closed():
    ops.exp(f32())
    ir = popxl.gir()
    popxl.Session(ir)
    ir.replication_factor = 2


@table(
    ("no graph", RuntimeError, "no graph has been selected", _nothing_selected),
    (
        "other Ir",
        RuntimeError,
        "previous context's Ir is different",
        lambda: popxl.Ir().main_graph.__enter__(),
    ),
    ("mode None", TypeError, "`None` cannot be passed", lambda: _in_sequence(None)),
    ("mode", ValueError, "mode not understood", lambda: _in_sequence("yes")),
    ("prepared", RuntimeError, "already prepared", _closed),
    ("compare Ir", TypeError, "", lambda: popxl.gir() == 3),
    ("compare graph", TypeError, "", lambda: popxl.gmg() == "main"),
    ("contained", TypeError, "", lambda: "x" in popxl.gmg()),
    ("Graph()", TypeError, "using the constructor", popxl.Graph),
    ("tensor id", PE, "", lambda: popxl.gmg().get_tensor("none")),
    ("hook", ValueError, "Unknown op created hook", lambda: popxl.gmg().remove_op_created_hook(7)),
    (
        "no function",
        TypeError,
        "must be either a function or a class that extends popxl.Module",
        lambda: graph_of(object()),
    ),
    ("signature", ValueError, "do not match the signature", lambda: graph_of(lambda x: x)),
    (
        "list mixture",
        TypeError,
        "mixture of Tensors and other types",
        lambda: graph_of(lambda x: None, [SPEC, 1]),
    ),
    (
        "tuple mixture",
        TypeError,
        "mixture of Tensors and other types",
        lambda: graph_of(lambda *x: None, SPEC, 1),
    ),
    (
        "kwargs mixture",
        TypeError,
        "mixture of Tensors and other types",
        lambda: popxl.gir().create_graph(_mixed, a=SPEC, b=2),
    ),
    (
        "result",
        ValueError,
        "Output of subgraph must be None, a Tensor or an iterable",
        lambda: graph_of(lambda x: "no", SPEC),
    ),
    ("capture", ValueError, "is not in the current Graph", lambda: _captured()),
    ("output twice", ValueError, "", lambda: graph_of(_twice, SPEC)),
    ("output elsewhere", ValueError, "", lambda: popxl.graph_output(elsewhere())),
    ("Module", NotImplementedError, "must override `build`", lambda: popxl.Module()()),
    ("ByRef", NotImplementedError, "should only be used as an annotation", popxl.TensorByRef),
)
def test_graphs_and_contexts(case):
    case.check()


def _captured():
    x = f32()
    return graph_of(lambda: x + 1)


def _memmap(tmp_path, dtype="float32"):
    return np.memmap(tmp_path / "file", dtype, "w+", shape=(2, 3))


@table(
    ("dtype()", TypeError, "Cannot create", popxl.dtype),
    (
        "half",
        ValueError,
        "There is not a `popxl.dtype` that has a name",
        lambda: popxl.dtype.from_name("half"),
    ),
    ("as_dtype", ValueError, "compatible with value", lambda: popxl.dtype.as_dtype("text")),
    ("as_dtype of object", ValueError, "compatible with value", lambda: popxl.dtype.as_dtype(list)),
    *(
        (
            f"torch {t.name}",
            TypeError,
            "does not have a corresponding",
            lambda t=t: t.as_torch(),
        )
        for t in (popxl.uint16, popxl.uint32, popxl.uint64, popxl.float8_143, popxl.float8_152)
    ),
    (
        "scale",
        RuntimeError,
        "Non-default value for",
        lambda: utils.to_numpy([1.0], popxl.float32, log2_scale=1),
    ),
    (
        "overflow",
        RuntimeError,
        "Non-default value for",
        lambda: popxl.variable([1.0], nan_on_overflow=False),
    ),
    (
        "int as float8",
        TypeError,
        "not supported for float8 tensors",
        lambda: utils.to_numpy([1, 2], popxl.float8_143),
    ),
    (
        "to fp8 of int",
        RuntimeError,
        "not currently supported",
        lambda: utils.host_pow2scale_cast_to_fp8(np.arange(3), popxl.float8_143),
    ),
    (
        "to fp8 of float",
        RuntimeError,
        "not currently supported",
        lambda: popxl.fp8_utils.host_pow2scale_cast_to_fp8(np.ones(3), popxl.float16),
    ),
    (
        "from fp8 of float",
        RuntimeError,
        "not currently supported",
        lambda: utils.host_pow2scale_cast_from_fp8(np.ones(3), popxl.float16),
    ),
    (
        "from fp8 to int",
        RuntimeError,
        "not currently supported",
        lambda: utils.host_pow2scale_cast_from_fp8(np.zeros(3, FLOAT8), popxl.int32),
    ),
    (
        "uint64",
        ValueError,
        "Number is negative or cannot be represented as a uint64",
        lambda: popxl.random_seed.uint64_to_two_uint32(-1),
    ),
    (
        "large uint64",
        ValueError,
        "Number is negative or cannot be represented as a uint64",
        lambda: popxl.random_seed.uint64_to_two_uint32(2**64),
    ),
    (
        "two uint32",
        ValueError,
        "Either `a` or `b` are negative",
        lambda: popxl.random_seed.two_uint32_to_uint64(-1, 2),
    ),
)
def test_types_and_data(case):
    case.check()


def test_memory_mapped_data(tmp_path):
    file = _memmap(tmp_path)
    for words, build in (
        ("the `dtype` parameter must be None or the same", lambda: utils.to_numpy(file, "float16")),
        (
            "it must already be in C-ordered and aligned form",
            lambda: utils.to_numpy(file[:, :2]),
        ),
        (
            "the dtype `None` is not supported, as it requires downcasting",
            lambda: utils.to_numpy(_memmap(tmp_path, "float64")),
        ),
        (
            "the dtype `popxl.dtypes.float64` is not supported, as it requires downcasting",
            lambda: utils.to_numpy(_memmap(tmp_path, "float64"), popxl.float64),
        ),
        (
            "the dtype `popxl.dtypes.int64` is not supported, as it requires downcasting",
            lambda: utils.to_numpy(_memmap(tmp_path, "int64"), popxl.int64, downcast=False),
        ),
    ):
        words = f"^When passing a memory-mapped NumPy array, {words}"
        Refused("memmap", ValueError, words, build).check()


@table(
    *(
        (cls.__name__, RuntimeError, "cannot be constructed directly", cls)
        for cls in (popxl.Tensor, popxl.Variable, popxl.Constant)
    ),
    ("ipu", popxl.errors.UndefinedValue, "IPU is undefined", lambda: f32().ipu),
    ("tile set", popxl.errors.UndefinedValue, "tile set is undefined", lambda: f32().tile_set),
    ("no elements", ValueError, "The value has 0 elements", lambda: f32(2) + []),
    ("float16 power", PE, "incompatible types", lambda: f16(2) ** 2),
    ("reflected power", PE, "incompatible types", lambda: 2 ** f16(2)),
    ("length", ValueError, "doesn't have a length", lambda: len(f32())),
    ("in", TypeError, "", lambda: 1.0 in f32(2)),
    ("iteration", TypeError, "", lambda: list(f32(2))),
    ("order", TypeError, "", lambda: f32(2) < f32(2)),
    ("assignment", TypeError, "", lambda: operator.setitem(f32(2), 0, 1.0)),
    ("diag", ValueError, "Diag expected a 2d tensor", lambda: f32(2, 2, 2).diag()),
    *(
        (f"index {key!r}", TypeError, "Only integers, slices", lambda key=key: f32(2, 2)[key])
        for key in ("a", True, 1.0, None, ..., (0, None), (..., 0), (0, True))
    ),
    ("index too large", ValueError, "Can't squeeze axis", lambda: f32(2)[2]),
    ("variable without source", TypeError, "source", lambda: f32().copy_to_ipu(1)),
    (
        "constant without source",
        TypeError,
        "source",
        lambda: popxl.constant(1).copy_to_ipu(1),
    ),
)
def test_tensors(case):
    case.check()


def _sharded(buffer_shape, *shapes):
    buffer = popxl.remote_buffer(buffer_shape, popxl.float32, 2)
    for shape in shapes:
        popxl.remote_replica_sharded_variable(np.ones(shape, np.float32), buffer)


def _entries():
    popxl.remote_buffer((), popxl.int32).entries = 0


def _shape():
    popxl.remote_buffer((), popxl.int32).tensor_shape = (2,)


def _in_graph():
    with popxl.gir().create_empty_graph():
        popxl.variable(1)


@table(
    ("graph", ValueError, "cannot initialise a variable tensor within a graph", _in_graph),
    (
        "groups",
        PE,
        "should match numGroups",
        lambda: popxl.variable([1, 2, 3], replica_grouping=popxl.gir().replica_grouping(1, 2)),
        4,
    ),
    (
        "scalar for groups",
        PE,
        "should have at least one dimension",
        lambda: popxl.variable(1, replica_grouping=popxl.gir().replica_grouping(1, 2)),
        4,
    ),
    (
        "mode",
        ValueError,
        "Invalid retrieval_mode",
        lambda: popxl.variable(1, retrieval_mode="all"),
    ),
    (
        "codes",
        TypeError,
        "explicitly set the data type",
        lambda: popxl.constant(np.zeros(2, FLOAT8)),
    ),
    (
        "entries",
        ValueError,
        "^Entries must be a non-zero, positive integer",
        lambda: popxl.remote_buffer((), popxl.int32, 0),
    ),
    ("set entries", ValueError, "non-zero, positive integer", _entries),
    ("set shape", AttributeError, "", _shape),
    (
        "match",
        ValueError,
        "^Tensor t does not match buffer.",
        lambda: popxl.remote_buffer((2,), popxl.float32).validate_tensor_matches_buffer(f32(3)),
    ),
    (
        "match type",
        ValueError,
        "does not match buffer",
        lambda: popxl.remote_buffer((2,), popxl.float32).validate_tensor_matches_buffer(f16(2)),
    ),
    (
        "match whole",
        ValueError,
        "does not match buffer",
        lambda: popxl.remote_buffer((2,), popxl.float32).validate_tensor_matches_buffer(f32(2), 2),
    ),
    (
        "remote variable",
        ValueError,
        "does not match buffer",
        lambda: popxl.remote_variable([1, 2], popxl.remote_buffer((2,), popxl.float32)),
    ),
    ("one replica", ValueError, "greater than 1", lambda: _sharded((2,), (4,))),
    (
        "one replica, own buffer",
        ValueError,
        "greater than 1",
        lambda: popxl.replica_sharded_variable([1.0, 2]),
    ),
    (
        "meta shape",
        ValueError,
        "meta_shape has already been set",
        lambda: _sharded((2,), (4,), (2, 2)),
        2,
    ),
    (
        "shard over many",
        ValueError,
        "must be less than or equal to",
        lambda: popxl.replica_sharded_buffer((4,), popxl.float32, shard_over=8),
        4,
    ),
    (
        "shard over some",
        ValueError,
        "must be divisible",
        lambda: popxl.replica_sharded_buffer((4,), popxl.float32, shard_over=3),
        4,
    ),
    (
        "meta shapes",
        PE,
        "Incompatible meta shapes",
        lambda: (
            ops.init((2,), popxl.float32, meta_shape=(4,))
            + ops.init((2,), popxl.float32, meta_shape=(2, 2))
        ),
    ),
)
def test_variables_and_buffers(case):
    case.check()


def _usable(stride, size):
    grouping = popxl.gir().replica_grouping(stride, size)
    ops.collectives.replicated_all_reduce(f32(2), group=grouping)


def _assigned(*assignment):
    return popxl.gir().replica_grouping_from_assignments(list(assignment))


@table(
    *(
        (f"stride {n}", ValueError, words, lambda n=n: popxl.gir().replica_grouping(n), 8)
        for n, words in (
            (0, "Stride must be greater than zero"),
            (9, "Stride must be greater than zero"),
            (3, "factor of the number of replicas"),
        )
    ),
    *(
        (
            f"size {n}",
            ValueError,
            "Group size must be greater than zero",
            lambda n=n: popxl.gir().replica_grouping(1, n),
            8,
        )
        for n in (0, 9)
    ),
    ("product", ValueError, "divisible by the product", lambda: _usable(2, 3), 8),
    (
        "product for a variable",
        ValueError,
        "divisible by the product",
        lambda: popxl.variable([1, 2], replica_grouping=popxl.gir().replica_grouping(2, 3)),
        8,
    ),
    ("sizes", ValueError, "same size", lambda: _assigned(0, 0, 0, 1), 4),
    ("numbers", ValueError, "not numbered consecutively", lambda: _assigned(0, 2, 0, 2), 4),
    ("order", ValueError, "not monotonically increasing", lambda: _assigned(1, 1, 0, 0), 4),
    (
        "length",
        ValueError,
        "does not equal the number of replicas",
        lambda: _assigned(0, 0, 1, 1),
        8,
    ),
    (
        "stride of other distances",
        NotImplementedError,
        "non-constant stride",
        lambda: _assigned(0, 1, 1, 0).stride,
        4,
    ),
    (
        "collective over other distances",
        NotImplementedError,
        "non-constant stride",
        lambda: ops.collectives.replicated_all_reduce(f32(), group=_assigned(0, 1, 1, 0)),
        4,
    ),
    ("compare", TypeError, "", lambda: popxl.gir().replica_grouping() == 1),
    ("ReplicaGrouping()", RuntimeError, "", popxl.ReplicaGrouping),
)
def test_groups_of_replicas(case):
    case.check()


def _stored(dtype, shape):
    ops.host_store(popxl.d2h_stream((2,), popxl.float32), popxl.variable(np.ones(shape, dtype)))


@table(
    ("h2d", NotImplementedError, "", popxl.HostToDeviceStream),
    ("d2h", NotImplementedError, "", popxl.DeviceToHostStream),
    ("dtype", ValueError, "does not match", lambda: _stored(np.float16, 2)),
    ("shape", ValueError, "does not match", lambda: _stored(np.float32, 3)),
)
def test_streams(case):
    case.check()
