"""Ops of every family as functions of their dimensions, for invariants that hold for all."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow_ipu.costs.cost import OpSpec, TensorType


def f32(*shape: int) -> TensorType:
    return TensorType("float32", shape)


def f16(*shape: int) -> TensorType:
    return TensorType("float16", shape)


def i32(*shape: int) -> TensorType:
    return TensorType("int32", shape)


def op(op_type: str, inputs, outputs, **attributes) -> OpSpec:
    """An OpSpec, for short; a single tensor may stand for a tuple of one."""

    def several(tensors):
        return (tensors,) if isinstance(tensors, TensorType) else tuple(tensors)

    return OpSpec(op_type, several(inputs), several(outputs), attributes)


def unary(op_type: str, tensor=f32):
    return lambda a, b, c: op(op_type, tensor(a, b, c), tensor(a, b, c))


def binary(op_type: str, tensor=f32):
    return lambda a, b, c: op(op_type, (tensor(a, b, c), tensor(c)), tensor(a, b, c))


def norm(op_type: str, inputs: int):
    def make(a, b, c):
        x = f16(a, b, b, c)
        return op(op_type, (x,) * inputs + (f32(c),) * 3, x, is_training=True)

    return make


def window(op_type: str):
    def make(a, b, c):
        whole, pooled = f16(a, 2 * b, 2 * b, c), f16(a, b, b, c)
        inputs = {
            "MaxPool": (whole,),
            "AvgPoolGrad": (i32(4), pooled),
            "MaxPoolGrad": (whole, pooled, pooled),
        }[op_type]
        result = pooled if op_type == "MaxPool" else whole
        return op(op_type, inputs, result, ksize=[1, 2, 2, 1])

    return make


def scatter(op_type: str, outputs=()):
    def make(a, b, c):
        table = f32(64 + b, c)
        return op(op_type, (table, i32(a, 1), f32(a, c)), (table,) * bool(outputs))

    return make


def dense_update(op_type: str, count: int):
    def make(a, b, c):
        return op(op_type, (f32(a, b, c),) * count + (f32(),) * 4 + (f32(a, b, c),), ())

    return make


def lstm(op_type: str):
    def make(a, b, c):
        weights = (f16(2 * c, 4 * c), f16(c), f16(c), f16(c), f16(4 * c))
        inputs = (TensorType("int64", ()), f16(a, b, c), f16(b, c), f16(b, c), *weights)
        return op(op_type, inputs, (f16(a, b, c),) * 7)

    return make


#: Op of three dimensions by name of the case.
FAMILIES: dict[str, Callable[[int, int, int], OpSpec]] = {
    "add": binary("AddV2"),
    "add-half": binary("AddV2", f16),
    "add-int": binary("AddV2", i32),
    "divide": binary("RealDiv"),
    "divide-int": binary("FloorDiv", i32),
    "exp": unary("Exp"),
    "relu": unary("Relu", f16),
    "tanh-gradient": unary("TanhGrad", f16),
    "add-n": lambda a, b, c: op("AddN", (f32(b, c),) * (a + 1), f32(b, c)),
    "cast": lambda a, b, c: op("Cast", f32(a, b, c), f16(a, b, c)),
    "fill": unary("ZerosLike"),
    "sum-last": lambda a, b, c: op("Sum", (f32(a, b, c), i32(1)), f32(a, b), axes=[2]),
    "sum-first": lambda a, b, c: op("Sum", (f16(a, b, c), i32(1)), f16(b, c), axes=[0]),
    "sum-kept": lambda a, b, c: op("Mean", (f32(a, b, c), i32(1)), f32(a, 1, c), axes=[1]),
    "bias-gradient": lambda a, b, c: op("BiasAddGrad", f16(a, b, c), f16(c)),
    "norm-l2": lambda a, b, c: op("L2Loss", f32(a, b, c), f32()),
    "argmax": lambda a, b, c: op("ArgMax", (f32(a, b, c), i32()), i32(a, b), axes=[2]),
    "batch-norm": norm("FusedBatchNormV3", 1),
    "batch-norm-gradient": norm("FusedBatchNormGradV3", 2),
    "softmax": unary("Softmax", f16),
    "log-softmax": unary("LogSoftmax"),
    "cross-entropy": lambda a, b, c: op(
        "SparseSoftmaxCrossEntropyWithLogits", (f32(a * b, c), i32(a * b)), f32(a * b)
    ),
    "max-pool": window("MaxPool"),
    "max-pool-gradient": window("MaxPoolGrad"),
    "average-pool-gradient": window("AvgPoolGrad"),
    "transpose": lambda a, b, c: op(
        "Transpose", (f16(a, b, c), i32(3)), f16(c, b, a), axes=[2, 1, 0]
    ),
    "transpose-rows": lambda a, b, c: op(
        "Transpose", (f16(a, b, c), i32(3)), f16(b, a, c), axes=[1, 0, 2]
    ),
    "concat": lambda a, b, c: op("ConcatV2", (f32(a, b, c),) * 2, f32(a, b, 2 * c)),
    "reverse": unary("ReverseV2"),
    "copy": unary("DeepCopy"),
    "gather": lambda a, b, c: op("GatherV2", (f16(64 + b, c), i32(a), i32()), f16(a, c)),
    "gather-points": lambda a, b, c: op("GatherNd", (f32(a, b, c), i32(a, 1)), f32(a, b, c)),
    "scatter": scatter("ResourceScatterNdAdd"),
    "scatter-copy": scatter("TensorScatterUpdate", outputs=True),
    "segments": lambda a, b, c: op("UnsortedSegmentSum", (f32(a, c), i32(a), i32()), f32(b, c)),
    "list-item": lambda a, b, c: op("TensorListGetItem", (i32(), i32()), f32(a, b, c)),
    "one-hot": lambda a, b, c: op("OneHot", (i32(a, b), i32(), f32(), f32()), f32(a, b, c)),
    "stitch": lambda a, b, c: op("DynamicStitch", (i32(a), f32(a, b, c)), f32(a, b, c)),
    "uniform": unary("RandomUniform"),
    "truncated": unary("TruncatedNormal", f16),
    "shuffle": unary("IpuRandomShuffle"),
    "categorical": lambda a, b, c: op("Multinomial", (f32(a, b), i32()), i32(a, c)),
    "top-k": lambda a, b, c: op("TopKV2", (f32(a, b + c), i32()), (f32(a, c), i32(a, c))),
    "cumsum": lambda a, b, c: op("Cumsum", (f32(a, b, c), i32()), f32(a, b, c), axes=[1]),
    "band": unary("MatrixBandPart"),
    "lstm": lstm("BlockLSTMV2"),
    "lstm-gradient": lstm("BlockLSTMGradV2"),
    "ctc": lambda a, b, c: op("IpuCtcLoss", (f32(a, b, 9), i32(b, c)), (f32(b), f32(a, b, 9))),
    "beam-search": lambda a, b, c: op(
        "IpuCtcBeamSearch", (f32(a, b, c), i32(b)), f32(b), beam_width=4
    ),
    "assign": lambda a, b, c: op("AssignVariableOp", (f32(a, b, c),) * 2, ()),
    "assign-add": lambda a, b, c: op("AssignAddVariableOp", (f16(a, b, c),) * 2, ()),
    "adam": dense_update("ResourceApplyAdam", 3),
    "momentum": dense_update("ResourceApplyMomentum", 2),
    "sparse-adagrad": lambda a, b, c: op(
        "ResourceSparseApplyAdagrad", (f32(64, c), f32(64, c), f32(), f32(a, c), i32(a)), ()
    ),
    "matmul": lambda a, b, c: op("MatMul", (f16(a, b), f16(b, c)), f16(a, c)),
    "einsum": lambda a, b, c: op(
        "Einsum", (f16(2, a, b), f16(2, c, b)), f16(2, a, c), equation="hab,hcb->hac"
    ),
    "cholesky": lambda a, b, c: op("Cholesky", f32(a, b, b), f32(a, b, b)),
    "qr": lambda a, b, c: op("Qr", f32(a, b, c), f32(a, b, c)),
    "unknown": lambda a, b, c: op("SomethingNew", (f32(a, b), f32(b, c)), f32(a, c)),
}
