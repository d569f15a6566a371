"""Table of the ops that do floating-point arithmetic, and how they round and trap."""

from __future__ import annotations

import dataclasses

from tensorflow.core.framework import node_def_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis import flops


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """How an op rounds, and where its results can be infinite or NaN.

    Attributes:
        elementwise: Whether an element of the result comes from the elements at the same index of
            the operands, with broadcasting.
        pole: Where finite operands have an infinite result that is exact: "" nowhere, "any"
            wherever the result is infinite, "zero" or "nonpositive" where one operand is.
        pole_operand: Which operand that is.
        divides: Whether the pole is a division by zero, whose result the device has as NaN in
            float16.
        overflows_float: Whether finite float16 operands can have results that are too large even
            for float32.
        family: Which library options it has: "matmuls", "convolutions" or "".
    """

    elementwise: bool = True
    pole: str = ""
    pole_operand: int = 0
    divides: bool = False
    overflows_float: bool = False
    family: str = ""


def _table(*rows: tuple[Arithmetic, str]) -> dict[str, Arithmetic]:
    return {op: arithmetic for arithmetic, names in rows for op in names.split()}


#: Ops whose results are rounded, by name.
ARITHMETIC = _table(
    (
        Arithmetic(),
        "Add AddV2 AddN AccumulateNV2 Sub Mul MulNoNan DivNoNan Square SquaredDifference Sqrt Sin "
        "Cos Tan Asin Acos Atan Atan2 Tanh Asinh Acosh Sigmoid Erf Erfc Softplus Softsign Elu Selu "
        "LeakyRelu BiasAdd BiasAddV1 TanhGrad SigmoidGrad SoftplusGrad SoftsignGrad EluGrad "
        "SeluGrad LeakyReluGrad RsqrtGrad InvGrad ReciprocalGrad Lerp NextAfter",
    ),
    (Arithmetic(overflows_float=True), "Exp Expm1 Sinh Cosh"),
    (Arithmetic(pole="any"), "Log Log1p Rsqrt Atanh Erfinv Ndtri Digamma Xlog1py"),
    (Arithmetic(pole="nonpositive"), "Lgamma"),
    (Arithmetic(pole="zero", divides=True), "Inv Reciprocal SqrtGrad"),
    (Arithmetic(pole="zero", overflows_float=True), "Pow"),
    (
        Arithmetic(pole="zero", pole_operand=1, divides=True),
        "Div RealDiv TruncateDiv FloorDiv Xdivy",
    ),
    (Arithmetic(pole="zero", pole_operand=1), "Mod FloorMod TruncateMod Xlogy"),
    (
        Arithmetic(elementwise=False, family="matmuls"),
        "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum",
    ),
    (
        Arithmetic(elementwise=False, family="convolutions"),
        "Conv2D Conv2DBackpropInput Conv2DBackpropFilter Conv3D Conv3DBackpropInputV2 "
        "Conv3DBackpropFilterV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput "
        "DepthwiseConv2dNativeBackpropFilter",
    ),
    (Arithmetic(elementwise=False, overflows_float=True), "Prod Cumprod UnsortedSegmentProd"),
    (
        Arithmetic(elementwise=False),
        "Sum Mean EuclideanNorm L2Loss Cumsum BiasAddGrad SegmentSum SegmentMean "
        "UnsortedSegmentSum AvgPool AvgPoolGrad AvgPool3D AvgPool3DGrad MaxPoolGrad MaxPool3DGrad "
        "Softmax LogSoftmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits "
        "FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGradV2 FusedBatchNormGradV3",
    ),
    (Arithmetic(elementwise=False), " ".join(sorted(op_names.ADDING_COLLECTIVES))),
)

_CAST = Arithmetic()

#: Ops whose results are values of the operands, or not floating point: nothing is rounded. They
#: work on whichever form of the operands there is.
EXACT = frozenset(
    """
    Identity StopGradient PreventGradient Snapshot Reshape Transpose Squeeze ExpandDims Relu Relu6
    ReluGrad Relu6Grad Neg Abs Sign Maximum Minimum Max Min MaxPool Select SelectV2 ClipByValue
    Floor Ceil Rint Round ZerosLike OnesLike Greater GreaterEqual Less LessEqual Equal NotEqual
    IsNan IsInf IsFinite ArgMax ArgMin TopKV2
    Shape ShapeN Size Rank EnsureShape Split SplitV ConcatV2 Pack Unpack Slice StridedSlice
    StridedSliceGrad Pad PadV2 MirrorPad Tile BroadcastTo ReverseV2 GatherV2 GatherNd Fill
    """.split()
)

#: Dense updates of variables by the rule of an optimizer.
UPDATES = frozenset(
    """
    ResourceApplyGradientDescent ResourceApplyMomentum ResourceApplyKerasMomentum ResourceApplyAdam
    ResourceApplyAdaMax ResourceApplyAdamWithAmsgrad ResourceApplyAdagrad ResourceApplyAdagradV2
    ResourceApplyAdadelta ResourceApplyRMSProp ResourceApplyCenteredRMSProp ResourceApplyFtrl
    ResourceApplyFtrlV2 ResourceApplyAddSign ResourceApplyPowerSign
    ResourceApplyProximalGradientDescent ResourceApplyProximalAdagrad
    """.split()
)

# Our own ops without arithmetic.
_NO_ARITHMETIC = flops.DATA_MOVEMENT


def arithmetic_of(node: node_def_pb2.NodeDef) -> Arithmetic | None:
    """Returns the arithmetic of a node; None if its results are not rounded."""
    return _CAST if node.op == "Cast" else ARITHMETIC.get(node.op)


def checked(node: node_def_pb2.NodeDef) -> Arithmetic | None:
    """Returns the arithmetic of a node that traps check, fused ops of this package included."""
    found = arithmetic_of(node)
    if found is None and op_names.is_own(node.op) and node.op not in _NO_ARITHMETIC:
        return Arithmetic(elementwise=False)
    return found
