"""Work of an op: floating-point operations, and bytes read from and written to variables.

TensorFlow's own registered statistics (`tensorflow.python.profiler.internal.flops_registry` and
`nn_ops`) come first; the tables here add the missing ops. Rules of counting:

* Floating-point arithmetic only. An op without any floating-point (or complex) input or output
  counts 0, so loop counters and shape arithmetic are no work.
* An addition, subtraction, multiplication, division, comparison, square root, and one evaluation
  of a transcendental function count 1 each; a multiply-accumulate therefore counts 2.
* Moving, selecting and converting data counts 0.

Labels, from most to least certain: `exact` for ops whose definition fixes the count; `modelled`
where a usual algorithm had to be supposed; `assumed` for round figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import ops, tensor_util
from tensorflow.python.profiler.internal import flops_registry  # noqa: F401
from tensorflow.python.util import deprecation

from tensorflow_ipu.compiler.ir.records import TensorRecord
from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# Registers TensorFlow's formulas; nothing in it is called by name.


EXACT = "exact"
MODELLED = "modelled"
ASSUMED = "assumed"


@dataclass(frozen=True)
class Flops:
    """The floating-point operations of an op.

    Args:
        count: their number; `None` when no formula or no static shape is known.
        label: `exact`, `modelled` or `assumed`; empty without a count.
    """

    count: int | None
    label: str


UNKNOWN = Flops(None, "")
NO_WORK = Flops(0, EXACT)
# TensorFlow's formulas for these count the steps of an algorithm it supposes.
_MODELLED_BY_TENSORFLOW = frozenset({"Log", "Pow", "Rsqrt", "RsqrtGrad", "Softmax"})
# TensorFlow divides the input's size by the strides here, which miscounts where the strides do not
# divide it (5 % too many for the first convolution of ResNet-50). The table has the exact count.
_MISCOUNTED_BY_TENSORFLOW = frozenset({"Conv2DBackpropInput", "Conv2DBackpropFilter"})


def flops_of(op: tf.Operation, node: node_def_pb2.NodeDef | None = None) -> Flops:
    """Returns the floating-point operations of one execution of an op.

    Args:
        op: an op in a graph with as many static shapes as can be had.
        node: its definition, when the caller has it at hand.

    Returns:
        The count and how sure it is. An op that runs functions (a loop, a call) counts 0: the
        ops in those functions are counted on their own.
    """
    if op.type in DATA_MOVEMENT or op.type in CONTROL or not _floating(op):
        return NO_WORK
    if any(tensor.dtype == tf.variant for tensor in op.outputs):
        # Adds lists element by element; how long they are is not in any static shape.
        return UNKNOWN
    try:
        registered = _registered(op, op.node_def if node is None else node)
        if registered is not None:
            return Flops(registered, MODELLED if op.type in _MODELLED_BY_TENSORFLOW else EXACT)
        if op.type in FORMULAS:
            formula = FORMULAS[op.type]
            return Flops(int(formula.count(op)), formula.label)
    except (ValueError, TypeError):
        # A shape the formula needs is not static.
        pass
    return UNKNOWN


def _floating(op: tf.Operation) -> bool:
    """Whether an op takes, makes or updates floating-point data, or may do so."""
    opaque = (tf.resource, tf.variant)
    tensors = (*op.inputs, *op.outputs)
    return any(t.dtype.is_floating or t.dtype.is_complex or t.dtype in opaque for t in tensors)


def _registered(op: tf.Operation, node: node_def_pb2.NodeDef) -> int | None:
    """TensorFlow's count, `None` where it registers no formula, a wrong one or another layout's."""
    if op.type in _MISCOUNTED_BY_TENSORFLOW:
        return None
    if op.type in FORMULAS and b"NHWC" != node.attr["data_format"].s != b"":
        return None
    if node.input and node.input[-1].startswith("^"):
        # Some of TensorFlow's formulas count inputs, and control inputs with them.
        data_inputs = [name for name in node.input if not name.startswith("^")]
        node = node_def_pb2.NodeDef(name=node.name, op=node.op, attr=node.attr, input=data_inputs)
    with deprecation.silence():  # TensorFlow's formulas call a deprecated function of its own.
        value = ops.get_stats_for_node_def(op.graph, node, "flops").value
    return None if value is None else round(value)


def _elements(tensor: tf.Tensor) -> int:
    """Number of elements of a tensor."""
    count = tensor.shape.num_elements()
    if count is None:
        raise ValueError(f"Expected a static shape, received {tensor.shape} for {tensor.name}.")
    return int(count)


def _rows(tensor: tf.Tensor) -> int:
    """Number of rows of a tensor whose last dimension is reduced."""
    return _elements(tensor) // max(int(tensor.shape[-1]), 1)


def _per_output(factor: int) -> Callable[[tf.Operation], int]:
    """`factor` for each element of the first output."""
    return lambda op: factor * _elements(op.outputs[0])


def _per_input(factor: int, index: int = 0) -> Callable[[tf.Operation], int]:
    """`factor` for each element of an input."""
    return lambda op: factor * _elements(op.inputs[index])


def _reduction(op: tf.Operation) -> int:
    """Elements in less elements out: joining n values takes n - 1 operations."""
    return _elements(op.inputs[0]) - _elements(op.outputs[0])


def _euclidean_norm(op: tf.Operation) -> int:
    """A square for each element, the sum of them, a root for each result: 2 * elements in."""
    return _elements(op.inputs[0]) + _reduction(op) + _elements(op.outputs[0])


def _scan(op: tf.Operation) -> int:
    """Elements less lines along the axis: the first of a line is only copied."""
    axis = tensor_util.constant_value(op.inputs[1])
    if axis is None:
        raise ValueError("Expected a constant axis.")
    length = int(op.inputs[0].shape[int(axis)])
    return _elements(op.inputs[0]) - _elements(op.inputs[0]) // max(length, 1)


def _window(ksize: list[int]) -> int:
    """Number of elements of a pooling window."""
    return math.prod(ksize)


def _pool(op: tf.Operation) -> int:
    """Window elements for each output, as TensorFlow counts 2-D pooling."""
    return _window(op.get_attr("ksize")) * _elements(op.outputs[0])


def _average_pool_gradient(op: tf.Operation) -> int:
    """Scale and add over the window of each output gradient: 2 * window * elements."""
    return 2 * _window(op.get_attr("ksize")) * _elements(op.inputs[1])


def _max_pool_gradient(op: tf.Operation) -> int:
    """Find the maximum again, then add: (window + 1) * elements of the pooled input."""
    return (_window(op.get_attr("ksize")) + 1) * _elements(op.inputs[1])


def _convolution_gradient(op: tf.Operation) -> int:
    """As many multiply-accumulates as forward: 2 * taps * input channels * output elements.

    The filter's shape is [*spatial, input channels, output channels], the third input of the op is
    the gradient of the output.
    """
    filter_shape = _filter_shape(op)
    return 2 * _elements(op.inputs[2]) * math.prod(filter_shape[:-1])


def _depthwise_gradient(op: tf.Operation) -> int:
    """As many multiply-accumulates as forward: 2 * taps * output elements."""
    return 2 * _elements(op.inputs[2]) * math.prod(_filter_shape(op)[:-2])


def _filter_shape(op: tf.Operation) -> list[int]:
    """Returns the filter's shape: the shape of the result, or of a gradient op's second input."""
    holder = op.outputs[0] if "Filter" in op.type else op.inputs[1]
    _elements(holder)
    return holder.shape.as_list()


def _einsum(op: tf.Operation) -> int:
    """Returns the flops of an einsum: index lengths multiplied, for each further operand.

    Source: one multiplication per combination of indices, and one addition per combination that
    is summed over. Equations with an ellipsis are not counted.
    """
    sources, result = op.get_attr("equation").decode().replace(" ", "").split("->")
    if "." in sources:
        raise ValueError("Expected an equation without ellipsis.")
    lengths: dict[str, int] = {}
    for labels, tensor in zip(sources.split(","), op.inputs):
        _elements(tensor)
        lengths.update(zip(labels, tensor.shape.as_list()))
    combinations = math.prod(lengths.values())
    products = max(len(op.inputs) - 1, 0)
    summed = combinations if set(lengths) - set(result) else 0
    return combinations * products + summed


def _normalization(training: int, inference: int) -> Callable[[tf.Operation], int]:
    """Operations for each element of a batch norm's input, by mode."""
    return lambda op: (
        _elements(op.inputs[0]) * (training if op.get_attr("is_training") else inference)
    )


def _cross_entropy(op: tf.Operation) -> int:
    """Softmax cross entropy and its gradient: 9 for each logit and 1 for each row.

    Loss: maximum, shift, exponential, sum (4), one logarithm a row, subtract, times label, sum (3).
    Gradient: divide by the sum, subtract the label (2).
    """
    return 9 * _elements(op.inputs[0]) + _rows(op.inputs[0])


def _sparse_cross_entropy(op: tf.Operation) -> int:
    """With one label a row: maximum, shift, exponential, sum, divide (5) and 3 for each row."""
    return 5 * _elements(op.inputs[0]) + 3 * _rows(op.inputs[0])


def _update(plain: int, nesterov: int | None = None) -> Callable[[tf.Operation], int]:
    """Operations for each element of an optimizer's gradient, from its update equations."""

    def count(op: tf.Operation) -> int:
        uses_nesterov = nesterov is not None and op.get_attr("use_nesterov")
        names = [argument.name for argument in op.op_def.input_arg]
        gradient = op.inputs[names.index("grad" if "grad" in names else "delta")]
        return (nesterov if uses_nesterov and nesterov else plain) * _elements(gradient)

    return count


@dataclass(frozen=True)
class Formula:
    """The formula for the floating-point operations of an op type.

    Args:
        label: label of the count.
        count: the number of operations of an op; raises `ValueError` when a shape is not static.
    """

    label: str
    count: Callable[[tf.Operation], int]


def _table(*rows: tuple[str, Callable[[tf.Operation], int], str]) -> Mapping[str, Formula]:
    """One formula for each op type named in the rows."""
    return {name: Formula(label, count) for label, count, names in rows for name in names.split()}


def _reduce_scatter(op: tf.Operation) -> int:
    """Each element of the slice takes one operation for each replica but the first.

    A mean takes one more.
    """
    replicas, kind = op.get_attr("replication_factor"), op.get_attr("op").decode()
    if kind == "COLLECTIVE_OP_LOCAL":
        return 0
    squares = replicas if kind == "COLLECTIVE_OP_SQUARE_ADD" else 0
    divisions = int(kind == "COLLECTIVE_OP_MEAN")
    return (replicas - 1 + squares + divisions) * _elements(op.outputs[0])


def _candidates(op: tf.Operation) -> int:
    """An exponential for each sample, and a logarithm, product and exponential for each count."""
    return _elements(op.outputs[0]) + 3 * (_elements(op.outputs[1]) + _elements(op.outputs[2]))


def _ctc_loss(op: tf.Operation) -> int:
    """For each step and position (two for each label, and one): 25.

    Forward two sums of logarithms (5 each) and one product, backward the same, gradient 3.
    """
    steps, batch = op.inputs[0].shape[:2].as_list()
    return 25 * steps * batch * (2 * int(op.inputs[1].shape[1]) + 1)


def _ctc_beam_search(op: tf.Operation) -> int:
    """For each step, beam and class one product and one comparison."""
    return 2 * op.get_attr("beam_width") * _elements(op.inputs[0])


def _block_lstm(op: tf.Operation) -> int:
    """A product with all weights for each step and sample, and 22 for each unit.

    Biases of 4 gates (4), three sigmoids of 4 operations (12), two tanh (2), and 4 for the states.
    """
    rows, columns = op.inputs[4].shape.as_list()
    outputs = _elements(op.outputs[-1])
    return outputs // (columns // 4) * 2 * rows * columns + 22 * outputs


# Formulas TensorFlow has no registration for, only for NHWC data (pooling), or miscounts.
FORMULAS: Mapping[str, Formula] = _table(
    # Elementwise, by the number of operations in the definition.
    (EXACT, _per_output(1), "Abs Sign Floor Ceil Round Rint Sqrt Inv Relu IsNan IsInf IsFinite"),
    (EXACT, _per_output(1), "Div FloorDiv TruncateDiv BiasAddV1 ReluGrad Real Imag"),
    (EXACT, _per_output(2), "Relu6 LeakyRelu Relu6Grad LeakyReluGrad SqrtGrad ClipByValue"),
    (EXACT, _per_output(2), "DivNoNan MulNoNan Mod FloorMod TruncateMod ApproximateEqual"),
    (EXACT, _per_output(3), "TanhGrad SigmoidGrad ReciprocalGrad InvGrad Softsign"),
    (EXACT, _per_output(4), "SoftsignGrad"),
    # Transcendental functions: one, as TensorFlow counts Log.
    (MODELLED, _per_output(1), "Exp Expm1 Log1p Sin Cos Tan Sinh Cosh Tanh Asin Acos Atan Asinh"),
    (MODELLED, _per_output(1), "Acosh Atanh Atan2 Erf Erfc Erfinv Ndtri Lgamma Digamma"),
    (MODELLED, _per_output(1), "Range LinSpace"),
    (MODELLED, _per_output(2), "Xlogy Xdivy Elu EluGrad"),
    (MODELLED, _per_output(3), "Xlog1py Softplus Selu SeluGrad"),
    (MODELLED, _per_output(4), "Sigmoid SoftplusGrad"),
    (MODELLED, _per_output(5), "LogSoftmax"),
    # Collectives: the share of one replica.
    (MODELLED, _per_output(1), " ".join(op_names.ADDING_COLLECTIVES - {op_names.REDUCE_SCATTER})),
    (EXACT, _reduce_scatter, op_names.REDUCE_SCATTER),
    # Reductions and scans.
    (EXACT, _reduction, "Max Min Prod"),
    (EXACT, _euclidean_norm, "EuclideanNorm"),
    (EXACT, _scan, "Cumsum Cumprod"),
    (MODELLED, _per_input(1), "SegmentSum SegmentMax SegmentMin SegmentProd UnsortedSegmentSum"),
    (MODELLED, _per_input(1), "UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd"),
    (EXACT, lambda op: (len(op.inputs) - 1) * _elements(op.outputs[0]), "AccumulateNV2"),
    # Products and convolutions.
    (EXACT, _einsum, "Einsum"),
    (EXACT, _convolution_gradient, "Conv2DBackpropInput Conv2DBackpropFilter"),
    (EXACT, _convolution_gradient, "Conv3DBackpropInputV2 Conv3DBackpropFilterV2"),
    (EXACT, _depthwise_gradient, "DepthwiseConv2dNativeBackpropInput"),
    (EXACT, _depthwise_gradient, "DepthwiseConv2dNativeBackpropFilter"),
    (EXACT, _pool, "AvgPool MaxPool AvgPool3D MaxPool3D MaxPoolWithArgmax"),
    (EXACT, _average_pool_gradient, "AvgPoolGrad AvgPool3DGrad"),
    (EXACT, _max_pool_gradient, "MaxPoolGrad MaxPool3DGrad"),
    (MODELLED, _block_lstm, "BlockLSTM BlockLSTMV2"),
    # Normalisation. Training: mean 1, variance 3, then subtract, scale, shift 3. Gradient: offset
    # 1, scale 3, and subtract, multiply, subtract, scale 4.
    (MODELLED, _normalization(7, 3), "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"),
    (MODELLED, _normalization(8, 5), "FusedBatchNormGrad FusedBatchNormGradV2"),
    (MODELLED, _normalization(8, 5), "FusedBatchNormGradV3"),
    # Losses.
    (MODELLED, _cross_entropy, "SoftmaxCrossEntropyWithLogits"),
    (MODELLED, _sparse_cross_entropy, "SparseSoftmaxCrossEntropyWithLogits"),
    (MODELLED, _ctc_loss, "IpuCtcLoss"),
    (MODELLED, _ctc_beam_search, "IpuCtcBeamSearch"),
    # Updates of variables, from the equations in TensorFlow's op documentation.
    (EXACT, _per_input(1, 1), " ".join(op_names.ACCUMULATIONS)),
    (EXACT, _per_input(1, 2), "ResourceScatterAdd ResourceScatterSub ResourceScatterMul"),
    (EXACT, _per_input(1, 2), "ResourceScatterDiv ResourceScatterMin ResourceScatterMax"),
    (EXACT, _update(2), "ResourceApplyGradientDescent"),
    (EXACT, _update(4, 7), "ResourceApplyMomentum ResourceSparseApplyMomentum"),
    (EXACT, _update(4, 6), "ResourceApplyKerasMomentum ResourceSparseApplyKerasMomentum"),
    (MODELLED, _update(12, 15), "ResourceApplyAdam"),
    (MODELLED, _update(10), "ResourceApplyAdaMax"),
    (MODELLED, _update(6), "ResourceApplyAdagrad ResourceSparseApplyAdagrad"),
    (MODELLED, _update(7), "ResourceApplyAdagradV2 ResourceSparseApplyAdagradV2"),
    (MODELLED, _update(11), "ResourceApplyRMSProp ResourceSparseApplyRMSProp"),
    (MODELLED, _update(16), "ResourceApplyCenteredRMSProp ResourceApplyAdadelta"),
    # Random numbers: scaling for uniform ones, logarithm, root, sine and scaling for normal ones.
    (ASSUMED, _per_output(2), "RandomUniform StatelessRandomUniform StatelessRandomUniformV2"),
    (ASSUMED, _per_output(5), "RandomStandardNormal StatelessRandomNormal"),
    (ASSUMED, _per_output(5), "StatelessRandomNormalV2"),
    (ASSUMED, _per_output(5), "TruncatedNormal StatelessTruncatedNormal"),
    (ASSUMED, _per_output(5), "StatelessTruncatedNormalV2"),
    # Logarithm of the probability, product, exponential for each true and each sampled class.
    (ASSUMED, _candidates, "LogUniformCandidateSampler IpuCandidateSampler"),
)

# Ops that only move, reinterpret, select or convert data, and those that only describe it.
DATA_MOVEMENT = frozenset(
    """
    Const Identity IdentityN StopGradient PreventGradient Snapshot Placeholder NoOp ControlTrigger
    PlaceholderWithDefault Reshape Squeeze ExpandDims Transpose ConjugateTranspose Concat ConcatV2
    Split SplitV Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate Pad PadV2 MirrorPad
    Gather GatherV2 GatherNd ScatterNd TensorScatterUpdate Pack Unpack Tile BroadcastTo Fill
    ZerosLike OnesLike Shape ShapeN Size Rank ReverseV2 ReverseSequence Roll Bitcast Cast Where
    Select SelectV2 DepthToSpace SpaceToDepth SpaceToBatch SpaceToBatchND BatchToSpace
    BatchToSpaceND OneHot MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2
    MatrixDiagPartV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixBandPart Diag DiagPart
    DynamicStitch ParallelDynamicStitch DynamicPartition InvertPermutation BroadcastArgs
    BroadcastGradientArgs Complex EnsureShape Print PrintV2 DeepCopy
    InplaceUpdate Empty EmptyTensorList TensorListReserve TensorListLength TensorListGetItem
    TensorListSetItem TensorListPushBack TensorListPopBack TensorListStack TensorListFromTensor
    TensorListGather TensorListScatter TensorListConcat TensorListConcatV2 TensorListSplit
    TensorListElementShape TensorListResize VarHandleOp VarIsInitializedOp
    DestroyResourceOp ResourceScatterUpdate ResourceScatterNdUpdate ResourceStridedSliceAssign
    IpuProgramVariable IpuCheckNumerics IpuCheckCast IpuMaskLabels IpuRoundToHalf
    IpuRoundStochastically IpuHalfToFloat IpuFloatToHalf IpuAssumeEqualAcrossReplicas
    IpuReplicationFactor IpuReplicationIndex
    """.split()
).union(
    *(op_names.QUERIES, {op_names.ASSIGN}, op_names.DROPPED_CHECKS),
    *(op_names.FEEDS, op_names.TABLE_OPS, op_names.MOVING_COLLECTIVES),
    # --- Bytes of variables ---
)

# Ops that run functions or steer the flow of data; the work is in the ops they run.
CONTROL = op_names.CONTROL_FLOW | op_names.FRAME_OPS | {"RemoteCall"}
# Optimizer updates touch as many bytes of each variable as the gradient has, scatter updates as
# many as their operand. Suffixes of updates that do not read the old value.
_OVERWRITES = ("Update", "SliceAssign")
_UPDATE_INPUTS = ("grad", "delta", "updates", "value")


def bytes_of(op: tf.Operation) -> tuple[int | None, int | None]:
    """Returns the bytes of variables that an op reads and writes.

    Ops that only pass handles on (loops, calls) touch no variable themselves.

    Args:
        op: an op in a graph with static shapes.

    Returns:
        Bytes read and bytes written, each `None` when it depends on an unknown shape.
    """
    if op.type in op_names.READS:
        return num_bytes(op.outputs[0]), 0
    if op.type == op_names.ASSIGN:
        return 0, num_bytes(op.inputs[1])
    if op.type in op_names.ACCUMULATIONS:
        return (num_bytes(op.inputs[1]),) * 2
    if op_names.is_update(op.type):
        touched = _updated_bytes(op)
        return (0 if op.type.endswith(_OVERWRITES) else touched), touched
    return 0, 0


def num_bytes(tensor: tf.Tensor) -> int | None:
    """Returns the size of a tensor in bytes.

    Args:
        tensor: any tensor.

    Returns:
        The size; 0 for a handle, which stays where it is; `None` for a string and for a shape that
        is not static.
    """
    dtype = tensor.dtype
    if dtype is tf.resource or dtype is tf.variant:
        return 0
    count = tensor.shape.num_elements()
    return None if count is None or dtype is tf.string else int(count) * dtype.size


def record_bytes(tensor: TensorRecord) -> int | None:
    """Returns the bytes of a tensor that a listing describes."""
    if tensor.dtype in ("resource", "variant"):
        return 0
    if tensor.shape is None or tensor.dtype == "string":
        return None
    size = _element_bytes(tensor.dtype)
    for dimension in tensor.shape:
        if dimension is None:
            return None
        size *= dimension
    return size


@lru_cache(maxsize=64)
def _element_bytes(dtype: str) -> int:
    """Returns the bytes of one element of a type, by its name."""
    return int(tf.as_dtype(dtype).size)


def _updated_bytes(op: tf.Operation) -> int | None:
    """Returns the bytes of each variable of an update: weights and optimizer slots."""
    inputs = op.inputs
    names = [argument.name for argument in op.op_def.input_arg]
    update = next((name for name in _UPDATE_INPUTS if name in names), None)
    size = None if update is None else num_bytes(inputs[names.index(update)])
    return None if size is None else size * sum(t.dtype is tf.resource for t in inputs)
