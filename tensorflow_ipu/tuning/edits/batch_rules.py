"""Equal dimensions of an op's operands, by op family.

A rule gets the op and yields pairs of dimensions that have the same meaning: if one grows with the
batch size, so does the other. A dimension is `(operand, axis)`, where operands are numbered from
the first input to the last output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.util import op_names

# --- Equal dimensions of operands: products, convolutions, normalization and lookups ---

# The functions are rules as `batch_rules` describes them.

#: An axis of an operand: operands are numbered from the first input to the last output.
Dimension = tuple[int, int]


Pairs = Iterator[tuple[Dimension, Dimension]]


Shape = tuple[int, ...]


def matmul(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of a matrix product, with or without batch dimensions."""
    flags = op.attributes
    first = bool(flags.get("transpose_a") or flags.get("adj_x"))
    second = bool(flags.get("transpose_b") or flags.get("adj_y"))
    a, b, c = (len(shapes[i]) for i in (0, 1, inputs))
    row, inner = (a - 1, a - 2) if first else (a - 2, a - 1)
    depth, column = (b - 1, b - 2) if second else (b - 2, b - 1)
    yield (0, row), (inputs, c - 2)
    yield (1, column), (inputs, c - 1)
    yield (0, inner), (1, depth)
    for back in range(3, 1 + c):
        for operand, rank in ((0, a), (1, b)):
            if rank >= back and shapes[operand][rank - back] == shapes[inputs][c - back]:
                yield (operand, rank - back), (inputs, c - back)


def einsum(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of an einsum by its letters, without `...`."""
    del shapes
    equation = str(op.attributes.get("equation", "")).replace(" ", "")
    left, _, right = equation.partition("->")
    terms = [*left.split(","), right]
    if "." in equation or len(terms) != inputs + 1:
        return
    seen: dict[str, Dimension] = {}
    for operand, term in enumerate(terms):
        for axis, letter in enumerate(term):
            if letter in seen:
                yield seen[letter], (operand, axis)
            seen.setdefault(letter, (operand, axis))


def first_of_images(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the batch dimension of convolution and pooling, the first of all but filters.

    A gradient with respect to a filter has no batch.
    """
    filters = {1} if "Backprop" not in op.type and "Conv" in op.type else set()
    if "BackpropFilter" in op.type:
        filters = {1, inputs}
    if "BackpropInput" in op.type:
        filters = {0, 1}
    images = [i for i, s in enumerate(shapes) if len(s) >= 3 and i not in filters]
    for image in images[1:]:
        yield (images[0], 0), (image, 0)


def normalized(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of batch normalization: of the data, and the channels."""
    del inputs
    channels = 1 if op.attributes.get("data_format") == "NCHW" else len(shapes[0]) - 1
    for other, shape in enumerate(shapes):
        if len(shape) == 1 and shape[0] == shapes[0][channels]:
            yield (0, channels), (other, 0)
    like = [i for i, shape in enumerate(shapes) if len(shape) == len(shapes[0]) > 1]
    for other in like[1:]:
        yield from prefix(shapes, like[0], other)


def looked_up(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of a gather: the indices' dimensions replace the axis."""
    axis = (op.attributes.get("axes") or [0])[0]
    batch = int(op.attributes.get("batch_dims", 0))
    for place in range(axis):
        yield (0, place), (inputs, place)
    for place in range(batch, len(shapes[1])):
        yield (1, place), (inputs, axis + place - batch)
    for place in range(batch):
        yield (1, place), (inputs, place)
    for back in range(1, len(shapes[0]) - axis):
        yield (0, len(shapes[0]) - back), (inputs, len(shapes[inputs]) - back)


def prefix(shapes: Sequence[Shape], first: int, second: int) -> Pairs:
    """Yields the equal dimensions of two operands, from the first up to the first difference."""
    for axis, (one, two) in enumerate(zip(shapes[first], shapes[second])):
        if one != two:
            return
        yield (first, axis), (second, axis)


# --- Equal dimensions of an op's operands, by op family ---

_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm", "ArgMax",
               "ArgMin")  # fmt: skip


_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")


_VIEWS = ("Reshape", "Squeeze", "ExpandDims", "EnsureShape", "Bitcast")


_UNRELATED = (*op_names.SHAPE_QUERIES, *op_names.FEEDS, "Fill", "Range", "Const", "BiasAddGrad",
              "L2Loss", "NoOp", "BroadcastGradientArgs",
              "TensorListReserve", "EmptyTensorList", "VarHandleOp")  # fmt: skip


#: Attributes with a number for each dimension that are never shapes.
NO_SHAPES = frozenset(
    {"axes", "begin", "steps", "strides", "ksize", "dilations", "rates", "squeeze_dims", "perm",
     "paddings", "explicit_paddings", "crops", "block_shape"}
)  # fmt: skip


def pairs(op: Op, shapes: Sequence[Shape]) -> Pairs:
    """Returns the pairs of equal dimensions of an op.

    Args:
        op: the op.
        shapes: of its inputs and outputs; for a list of tensors, its buffer's shape.
    """
    return _rule(op.type)(op, shapes, len(op.inputs))


def views(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the axes of two views of the same elements that hold the same dimension.

    Runs of dimensions with the same product belong together; of a run that is merged or cut, the
    first dimension is the one that grows with the batch.

    Args:
        before: one shape.
        after: the other.
    """
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == 1 and after[j] != 1:
            i += 1
            continue
        if after[j] == 1 and before[i] != 1:
            j += 1
            continue
        yield i, j
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right and i < len(before):
                left, i = left * before[i], i + 1
            elif right < left and j < len(after):
                right, j = right * after[j], j + 1
            else:
                return


def _rule(op_type: str) -> Callable[[Op, Sequence[Shape], int], Pairs]:
    """Returns the rule of an op type."""
    if op_type in _RULES:
        return _RULES[op_type]
    if "Conv" in op_type or "Pool" in op_type:
        return first_of_images
    return _aligned


def _nothing(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    del op, shapes, inputs
    return iter(())


def _aligned(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of an elementwise op, counted from the last."""
    del op
    for result in range(inputs, len(shapes)):
        for other in range(len(shapes)):
            if other != result:
                yield from _suffix(shapes, other, result)


def _suffix(shapes: Sequence[Shape], first: int, second: int) -> Pairs:
    """Yields the equal dimensions of two operands, counted from the last."""
    one, two = shapes[first], shapes[second]
    for back in range(1, 1 + min(len(one), len(two))):
        if one[-back] == two[-back]:
            yield (first, len(one) - back), (second, len(two) - back)


def _same_axes(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the unchanged dimensions of slices, paddings and tiles."""
    del op
    for result in range(inputs, len(shapes)):
        if inputs and len(shapes[0]) == len(shapes[result]):
            for axis, (one, two) in enumerate(zip(shapes[0], shapes[result])):
                if one == two:
                    yield (0, axis), (result, axis)
        elif inputs:
            yield from prefix(shapes, 0, result)


def _joined(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of concatenation and splitting: all but the joined axis."""
    axes = op.attributes.get("axes", ())
    whole = inputs if op.type == "ConcatV2" else next(
        (i for i in range(inputs) if len(shapes[i]) == len(shapes[inputs])), 0
    )  # fmt: skip
    for part, shape in enumerate(shapes):
        if part != whole and len(shape) == len(shapes[whole]):
            for axis in range(len(shape)):
                if axis not in axes and shape[axis] == shapes[whole][axis]:
                    yield (part, axis), (whole, axis)


def _reduced(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of a reduction: the axes that are not reduced."""
    if not inputs or not shapes[inputs]:
        return
    axes = op.attributes.get("axes")
    rank = len(shapes[0])
    if axes is None:
        yield from prefix(shapes, 0, inputs)
        return
    kept = [axis for axis in range(rank) if axis not in axes]
    keep = bool(op.attributes.get("keep_dims")) and len(shapes[inputs]) == rank
    for place, axis in enumerate(kept):
        yield (0, axis), (inputs, axis if keep else place)


def _transposed(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    axes = op.attributes.get("axes", ())
    if len(axes) == len(shapes[0]):
        for place, axis in enumerate(axes):
            yield (0, axis), (inputs, place)


def _viewed(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    del op
    if math.prod(shapes[0]) == math.prod(shapes[inputs]):
        for one, two in views(shapes[0], shapes[inputs]):
            yield (0, one), (inputs, two)


def _classes(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the first dimensions of cross entropy by label, one-hot vectors and top elements."""
    del op
    for result in range(inputs, len(shapes)):
        for other in range(len(shapes)):
            if other != result:
                yield from prefix(shapes, other, result)


def _packed(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of packing and unpacking: all but the new axis."""
    axis = int(op.attributes.get("axis", 0))
    parts = range(inputs) if op.type == "Pack" else range(inputs, len(shapes))
    whole = inputs if op.type == "Pack" else 0
    axis += len(shapes[whole]) if axis < 0 else 0
    for part in parts:
        for place in range(len(shapes[part])):
            yield (part, place), (whole, place + (place >= axis))


def _segments(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of a segment sum: the dimensions behind the ids'.

    The first dimension of the result is the number of segments.
    """
    del op
    yield from prefix(shapes, 1, 0)
    ahead = len(shapes[1])
    for axis in range(ahead, len(shapes[0])):
        yield (0, axis), (inputs, axis - ahead + 1)


def _carried(op: Op, shapes: Sequence[Shape], inputs: int) -> Pairs:
    """Yields the equal dimensions of a loop's variables before and after."""
    del op
    for place in range(min(inputs, len(shapes) - inputs)):
        if shapes[place] == shapes[inputs + place]:
            for axis in range(len(shapes[place])):
                yield (place, axis), (inputs + place, axis)


_RULES: dict[str, Callable[[Op, Sequence[Shape], int], Pairs]] = {
    **dict.fromkeys(_UNRELATED, _nothing),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(_VIEWS, _viewed),
    **dict.fromkeys(_PRODUCTS, matmul),
    **dict.fromkeys(("Transpose", "ConjugateTranspose"), _transposed),
    **dict.fromkeys(("Slice", "StridedSlice", "Pad", "PadV2", "MirrorPad", "Tile"), _same_axes),
    **dict.fromkeys(("ConcatV2", "Split", "SplitV"), _joined),
    **dict.fromkeys(("GatherV2", "ResourceGather"), looked_up),
    **dict.fromkeys(("Pack", "Unpack"), _packed),
    **dict.fromkeys(
        ("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", "OneHot",
         "TopKV2", "TopK", "InTopKV2"),
        _classes,
    ),
    **dict.fromkeys(
        ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormGrad",
         "FusedBatchNormGradV2", "FusedBatchNormGradV3"),
        normalized,
    ),
    **dict.fromkeys(
        tuple(f"UnsortedSegment{kind}" for kind in ("Sum", "Max", "Min", "Prod")), _segments
    ),
    **dict.fromkeys(op_names.LOOPS, _carried),
    "Einsum": einsum,
}  # fmt: skip
