"""Table of the ops on the chip: the ops that TensorFlow's XLA can compile for it.

The IPU got its programs from XLA, in the TensorFlow 2.6 that its last release was made of. So an op
is on the chip if that XLA had a kernel for it, unless the backend of the IPU lacked parts of the
kernel (`NOT_ON_CHIP`). An op in none of the tables is not on the chip.

Nothing here needs TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Ops that XLA has kernels for. In brackets are the inputs that have to be known when the program is
# compiled, because the shape of a result follows from them. Bounds of slices are not among them:
# `operators.rules` says which may depend on values.
_COMPILED = """
    Abs Acos Acosh Add AddN AddV2 AdjustContrastv2 AdjustHue AdjustSaturation
    All(reduction_indices) Any(reduction_indices) ApproximateEqual ArgMax(dimension)
    ArgMin(dimension) Asin Asinh AssignAddVariableOp AssignSubVariableOp AssignVariableOp Atan
    Atan2 Atanh AvgPool AvgPool3D AvgPool3DGrad(orig_input_shape) AvgPoolGrad(orig_input_shape)
    BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchToSpace(crops)
    BatchToSpaceND(block_shape,crops) BesselI0e BesselI1e Betainc BiasAdd BiasAddGrad BiasAddV1
    Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs(s0,s1) BroadcastGradientArgs(s0,s1)
    BroadcastTo(shape) Bucketize Case Cast Ceil Cholesky ClipByValue Concat(concat_dim)
    ConcatOffset(concat_dim,shape) ConcatV2(axis) ConjugateTranspose(perm) Const ControlTrigger
    Conv2D Conv2DBackpropFilter(filter_sizes) Conv2DBackpropInput(input_sizes) Conv3D
    Conv3DBackpropFilterV2(filter_sizes) Conv3DBackpropInputV2(input_sizes) Cos Cosh Cross
    Cumprod(axis) Cumsum(axis) DataFormatDimMap DataFormatVecPermute DepthToSpace
    DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter(filter_sizes)
    DepthwiseConv2dNativeBackpropInput(input_sizes) Dequantize DeviceIndex Diag DiagPart
    Digamma Div DivNoNan DynamicStitch(indices) Einsum Elu EluGrad Empty(shape)
    EmptyTensorList(max_num_elements) EnsureShape Equal Erf Erfc Erfinv Exp ExpandDims(dim)
    Expm1 ExtractImagePatches FakeParam FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient
    FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient Fill(dims) Floor FloorDiv FloorMod
    FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3
    FusedBatchNormV2 FusedBatchNormV3 Gather GatherNd GatherV2(axis) Greater GreaterEqual
    HSVToRGB Identity IdentityN If Igamma IgammaGradA Igammac InTopKV2(k) Inv Invert
    InvertPermutation IsFinite IsInf IsNan L2Loss LRN LRNGrad LeakyRelu LeakyReluGrad LeftShift
    Less LessEqual Lgamma LinSpace(num) ListDiff(x,y) Log Log1p LogSoftmax LogicalAnd
    LogicalNot LogicalOr LowerBound MatMul MatrixBandPart MatrixDiag MatrixDiagPart
    MatrixDiagPartV2(k,padding_value) MatrixDiagPartV3(k,padding_value)
    MatrixDiagV2(k,num_cols,num_rows,padding_value)
    MatrixDiagV3(k,num_cols,num_rows,padding_value) MatrixSetDiag MatrixSetDiagV2(k)
    MatrixSetDiagV3(k) MatrixTriangularSolve Max(reduction_indices) MaxPool MaxPool3D
    MaxPool3DGrad MaxPoolGrad MaxPoolGradGradV2(ksize,strides) MaxPoolGradV2(ksize,strides)
    MaxPoolV2(ksize,strides) Maximum Mean(reduction_indices) Min(reduction_indices) Minimum
    MirrorPad(paddings) MirrorPadGrad(paddings) Mod Mul MulNoNan Multinomial(num_samples) Ndtri
    Neg NextAfter NoOp NotEqual OneHot(depth) OnesLike Pack Pad(paddings) PadV2(paddings)
    ParallelDynamicStitch(indices) ParameterizedTruncatedNormal(shape) PartitionedCall
    PlaceholderWithDefault Polygamma PopulationCount Pow PreventGradient
    Prod(reduction_indices) QuantizeAndDequantizeV2 QuantizeAndDequantizeV3
    QuantizeAndDequantizeV4 RGBToHSV RandomGammaGrad RandomShuffle RandomStandardNormal(shape)
    RandomUniform(shape) RandomUniformInt(shape) Range(delta,limit,start) Rank ReadVariableOp
    RealDiv Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Reshape(shape)
    ResizeBilinear(size) ResizeBilinearGrad ResizeNearestNeighbor(size) ResourceApplyAdaMax
    ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradDA ResourceApplyAdagradV2
    ResourceApplyAdam ResourceApplyAddSign ResourceApplyCenteredRMSProp ResourceApplyFtrl
    ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum
    ResourceApplyMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad
    ResourceApplyProximalGradientDescent ResourceApplyRMSProp ResourceGather ResourceScatterAdd
    ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul
    ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterSub
    ResourceScatterUpdate ResourceStridedSliceAssign(strides) Reverse(dims) ReverseSequence
    ReverseV2(axis) RightShift Rint RngReadAndSkip(alg) RngSkip(algorithm) Roll(axis) Round
    Rsqrt RsqrtGrad ScatterNd(shape) Select SelectV2 Selu SeluGrad Shape ShapeN Sigmoid
    SigmoidGrad Sign Sin Sinh Size Slice(size) Snapshot Softmax SoftmaxCrossEntropyWithLogits
    Softplus SoftplusGrad Softsign SoftsignGrad SpaceToBatch(paddings)
    SpaceToBatchND(block_shape,paddings) SpaceToDepth SparseMatMul
    SparseSoftmaxCrossEntropyWithLogits SparseToDense(output_shape) Split(split_dim)
    SplitV(size_splits,split_dim) Sqrt SqrtGrad Square SquaredDifference Squeeze StackCloseV2
    StackPopV2 StackPushV2 StackV2(max_size) StatefulPartitionedCall
    StatefulStandardNormalV2(algorithm,shape) StatefulTruncatedNormal(algorithm,shape)
    StatefulUniform(algorithm,shape) StatefulUniformFullInt(algorithm,shape)
    StatefulUniformInt(algorithm,shape) StatelessCase StatelessIf
    StatelessMultinomial(num_samples) StatelessRandomGetAlg StatelessRandomGetKeyCounter
    StatelessRandomGetKeyCounterAlg StatelessRandomNormal(shape)
    StatelessRandomNormalV2(alg,shape) StatelessRandomUniform(shape)
    StatelessRandomUniformFullInt(shape) StatelessRandomUniformFullIntV2(alg,shape)
    StatelessRandomUniformInt(shape) StatelessRandomUniformIntV2(alg,shape)
    StatelessRandomUniformV2(alg,shape) StatelessTruncatedNormal(shape)
    StatelessTruncatedNormalV2(alg,shape) StatelessWhile StopGradient StridedSlice(strides)
    StridedSliceGrad(shape,strides) Sub Sum(reduction_indices) SymbolicGradient Tan Tanh
    TanhGrad TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayGradV3
    TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArraySplitV3(lengths)
    TensorArrayV3(size) TensorArrayWriteV3 TensorListConcatV2 TensorListElementShape
    TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListReserve(num_elements) TensorListSetItem
    TensorListSplit(element_shape,lengths) TensorListStack TensorScatterAdd TensorScatterMax
    TensorScatterMin TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate(strides)
    Tile(multiples) TopKV2(k) Transpose(perm) TridiagonalSolve TruncateDiv TruncateMod
    TruncatedNormal(shape) Unpack UnsortedSegmentMax(num_segments)
    UnsortedSegmentMin(num_segments) UnsortedSegmentProd(num_segments)
    UnsortedSegmentSum(num_segments) UpperBound VarIsInitializedOp VariableShape While Xdivy
    XlaBroadcastHelper(broadcast_dims)
    XlaConv(feature_group_count,lhs_dilation,padding,rhs_dilation,window_strides)
    XlaConvV2(feature_group_count,lhs_dilation,padding,rhs_dilation,window_strides)
    XlaDequantize XlaDot XlaDotV2 XlaDynamicSlice(size_indices) XlaDynamicUpdateSlice XlaEinsum
    XlaGather(slice_sizes) XlaIf XlaKeyValueSort
    XlaPad(padding_high,padding_interior,padding_low) XlaReduce
    XlaReduceWindow(base_dilations,padding,window_dilations,window_dimensions,window_strides)
    XlaReplicaId XlaScatter XlaSelectAndScatter(padding,window_dimensions,window_strides)
    XlaSharding XlaSort XlaSpmdFullToShardShape XlaSpmdShardToFullShape XlaVariadicReduce
    XlaVariadicSort(dimension) XlaWhile Xlog1py Xlogy ZerosLike Zeta
    """
# Ops that become XLA's on the way: loops and branches of TensorFlow 1, values that gradients of
# branches keep, sampling (which the IPU brought kernels for), and the compiler's replacement of
# `ParameterizedTruncatedNormal`.
_LOWERED = """
    Switch Merge Enter Exit NextIteration LoopCond
    OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
    LogUniformCandidateSampler UniformCandidateSampler StatelessParameterizedTruncatedNormal(shape)
    """
# They name a value of the host, and pass it to the program.
_ARGUMENTS = "Placeholder PlaceholderV2 VarHandleOp"
# Stand-ins for ops of the IPU that no op of TensorFlow equals: its LSTM (`ipu.rnn_ops`).
_STAND_INS = "BlockLSTMV2 BlockLSTMGradV2"


def _parsed(text: str) -> dict[str, tuple[str, ...]]:
    """Returns the ops of a table, each with the inputs that have to be known."""
    found = re.findall(r"(\w+)(?:\(([\w,]+)\))?", text)
    return {op: tuple(inputs.split(",")) if inputs else () for op, inputs in found}


#: Every op on the chip, with the names of the inputs that have to be known to the compiler.
ON_CHIP: Mapping[str, tuple[str, ...]] = _parsed(
    " ".join((_COMPILED, _LOWERED, _ARGUMENTS, _STAND_INS))
)
_VALUES = "shapes depend on values there, and all shapes of a program are fixed"
_QR = "XLA makes it of a QR decomposition, which the IPU has not"
_DECOMPOSITION = "of the matrix decompositions the IPU has Cholesky's only"
_COMPLEX = "the IPU has no complex numbers"
_SECOND = "the IPU has no second gradients of pooling"
_PROCESSES = "it works between devices of XLA's own kind"
_NEWER = "XLA had no kernel for it in TensorFlow 2.6"
_EXCEPTIONS = {
    _VALUES: """
        Where Unique UniqueV2 DynamicPartition NonMaxSuppressionV3 NonMaxSuppressionV4 XlaSetBound
        XlaSetDynamicDimensionSize XlaRemoveDynamicDimensionSize
        """,
    _QR: "MatrixInverse MatrixSolve",
    _DECOMPOSITION: "Qr Svd SelfAdjointEigV2 XlaSvd XlaSelfAdjointEig",
    _COMPLEX: """
        Angle Complex ComplexAbs Conj Imag Real FFT FFT2D FFT3D IFFT IFFT2D IFFT3D RFFT RFFT2D
        RFFT3D IRFFT IRFFT2D IRFFT3D
        """,
    _SECOND: "MaxPoolGradGrad MaxPool3DGradGrad",
    _PROCESSES: """
        CollectiveReduceV2 CollectiveAssignGroupV2 XlaSend XlaRecv XlaAllReduce XlaReduceScatter
        """,
    _NEWER: """
        ApproxTopK AssignVariableXlaConcatND Bincount Conv CumulativeLogsumexp DenseBincount
        FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient
        ReadVariableXlaSplitND SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2
        StochasticCastToInt ToBool TridiagonalMatMul UniformDequantize UniformQuantize
        UniformQuantizedAdd UniformQuantizedClipByValue UniformQuantizedConvolution
        UniformQuantizedDot UniformRequantize XlaCallModule XlaConcatND XlaCustomCall
        XlaCustomCallV2 XlaOptimizationBarrier XlaReducePrecision XlaRngBitGenerator XlaSplitND
        XlaVariadicReduceV2
        """,
}
#: Ops that XLA has a kernel for in TensorFlow 2.15 or later, and the chip lacks: why.
NOT_ON_CHIP: Mapping[str, str] = {
    op: reason for reason, ops in _EXCEPTIONS.items() for op in ops.split()
}
# Prefixes of ops without a kernel of XLA on tensors whose shapes depend on values.
_OF_VALUES = (
    "CTCBeamSearchDecoder",
    "CTCGreedyDecoder",
    "CombinedNonMaxSuppression",
    "ComputeAccidentalHits",
    "DenseToDenseSetOperation",
    "DenseToSparseSetOperation",
    "NonMaxSuppression",
    "Ragged",
    "SparseAdd",
    "SparseBincount",
    "SparseConcat",
    "SparseCount",
    "SparseCross",
    "SparseDenseCwise",
    "SparseFillEmptyRows",
    "SparseReduce",
    "SparseReorder",
    "SparseReshape",
    "SparseSegment",
    "SparseSlice",
    "SparseSparse",
    "SparseSplit",
    "SparseTensor",
    "SparseToSparse",
    "TensorListResize",
    "Unique",
)
_NO_KERNEL = "XLA has no kernel for it"


def reason(op: str) -> str:
    """Returns the reason why an op is not on the chip.

    Args:
        op: type of an op that is not in `ON_CHIP`.
    """
    if op in NOT_ON_CHIP:
        return NOT_ON_CHIP[op]
    return _VALUES if op.startswith(_OF_VALUES) else _NO_KERNEL


# --- Advice on replacements for ops that the chip lacks ---

_DENSE_GRADIENT = (
    "use ipu.embedding_ops.embedding_lookup or ipu.keras.layers.Embedding, whose gradients are "
    "dense: those of tf.gather and of stock embeddings are sparse"
)
_BOXES = "let the program return all boxes and scores, and suppress boxes on the host"
_COUNT = "use tf.reduce_sum(tf.one_hot(x, n), 0), or tf.math.unsorted_segment_sum of ones"
_DENSE = (
    "make the tensor dense before the program, in the dataset, and mask what it was filled with"
)
#: Prefixes of names of ops, and advice. The first match counts.
INSTEAD: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("Where",),
        "use tf.where(condition, x, y), with three arguments. In the place of tf.boolean_mask, "
        "multiply by the mask, and divide sums by the number of elements it keeps",
    ),
    (
        ("Unique",),
        "work on all values that there can be, for example with tf.math.unsorted_segment_sum. If "
        f"it belongs to a sparse gradient, {_DENSE_GRADIENT}",
    ),
    (("ResourceSparseApply",), _DENSE_GRADIENT),
    (("DynamicPartition",), "multiply by a mask for each part"),
    (("NonMaxSuppression", "CombinedNonMaxSuppression"), _BOXES),
    (("DenseBincount", "Bincount"), _COUNT),
    (("Segment",), "use tf.math.unsorted_segment_sum and its kind, with num_segments"),
    (("SparseSegment",), "use tf.gather and tf.math.unsorted_segment_sum, with num_segments"),
    (("SparseTensorDenseMatMul",), "multiply dense matrices with tf.matmul"),
    (("SparseApply",), "use resource variables"),
    (("Sparse", "Ragged"), _DENSE),
    (("EditDistance",), "let the program return both sequences, and compare them on the host"),
    (("CTCGreedyDecoder",), "use ipu.nn_ops.ctc_beam_search_decoder, or decode on the host"),
    (("CTCBeamSearchDecoder",), "use ipu.nn_ops.ctc_beam_search_decoder"),
    (("CTCLoss",), "use ipu.nn_ops.ctc_loss_v2"),
    (
        ("MatrixInverse", "MatrixSolve", "Lu"),
        "solve with tf.linalg.cholesky_solve where the matrix is positive definite, or with "
        "tf.linalg.triangular_solve",
    ),
    (
        ("TensorListResize", "TensorListSetItem"),
        "give the tf.TensorArray its size, and leave out dynamic_size=True",
    ),
    (
        ("EmptyTensorList", "StackV2"),
        "give tf.while_loop its maximum_iterations: what the gradient of a loop keeps has to have "
        "a size",
    ),
    (("ResizeNearestNeighborGrad",), "enlarge with tf.repeat, along each dimension"),
    (("ResizeBicubic", "ResizeArea"), "use the method bilinear, or resize in the dataset"),
    (("Print", "StringFormat"), "print tensors with ipu.internal_ops.print_tensor"),
)
_KNOWN = (
    "make it a Python number, or take it from a shape. Where it varies, work on the largest size, "
    "and mask the rest"
)
_ON_HOST = (
    "compute it on the host: before the program (in the dataset), after it, or in the middle with "
    "ipu.scopes.outside_compilation_scope()"
)


def instead(op: str) -> str | None:
    """Returns the replacement for an op, None if no special one is known.

    Args:
        op: type of the op.
    """
    return next((advice for starts, advice in INSTEAD if op.startswith(starts)), None)


def mend(op: str) -> str:
    """Returns advice for an op that the chip cannot run.

    Args:
        op: type of the op.
    """
    return instead(op) or (_KNOWN if op in ON_CHIP else _ON_HOST)
