"""Change of a Workload's batch size, without building the program again.

Dimensions that grow with the batch are found by following the batch dimension of feeds and inputs
through the ops. Variables never grow, and so neither do their gradients.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.planner.workload import INPUT, VARIABLE, Buffer, Copy, Op, Operand, Workload
from tensorflow_ipu.util import op_names

# --- Equal dimensions of operands: products, convolutions, normalization and lookups ---

# A rule gets the op and yields pairs of dimensions that have the same meaning: if one grows with
# the batch size, so does the other. A dimension is `(operand, axis)`, where operands are numbered
# from the first input to the last output.

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

# An element of an operand: its buffer, or place among operands without one, and its shape and axis.
_Owner = tuple[int, int]
_Node = tuple[_Owner, tuple[int, ...], int]


def with_batch(workload: Workload, batch: int) -> Workload:
    """Returns the program with another batch size.

    Args:
        workload: the program.
        batch: elements of a mini-batch of one replica.

    Returns:
        The program. Going to another size than 1 and back gives an equal program. A plan of it is
        `modelled` at best, because rules decide which dimensions grow.

    Raises:
        ValueError: the batch size of the program is not known, the new one is not positive, or a
            dimension cannot be scaled to it.
    """
    if workload.batch is None:
        raise ValueError(
            f"The batch size of {workload.name!r} is not known: it has no feed or input with a "
            "first dimension of fixed size. Build the program with the other batch size."
        )
    if batch < 1:
        raise ValueError(f"A batch has at least 1 element; received {batch}.")
    if batch == workload.batch:
        return workload
    return _Scaling(workload, batch).scaled()


def batch_dimensions(workload: Workload) -> dict[int, tuple[int, ...]]:
    """Returns the dimensions of each buffer that grow with the batch, if it has any.

    Args:
        workload: the program.
    """
    found: dict[int, tuple[int, ...]] = {}
    grown = _grown(workload)
    for index, buffer in enumerate(workload.buffers):
        axes = tuple(
            axis for axis in range(len(buffer.shape)) if ((index, -1), buffer.shape, axis) in grown
        )
        if axes:
            found[index] = axes
    return found


def _owner(op: int, place: int, operand: Operand) -> _Owner:
    return (op, place) if operand.buffer is None else (operand.buffer, -1)


def _operands(op: Op) -> Iterator[tuple[int, Operand]]:
    yield from enumerate((*op.inputs, *op.outputs))


def _grown(workload: Workload) -> set[_Node]:
    """Returns all dimensions that are reached from the batch dimensions of feeds and inputs."""
    near = _neighbors(workload)
    frontier = list(_seeds(workload))
    grown = set(frontier)
    while frontier:
        for node in near.get(frontier.pop(), ()):
            if node not in grown:
                grown.add(node)
                frontier.append(node)
    return grown


def _seeds(workload: Workload) -> Iterator[_Node]:
    """Yields the batch dimensions of the inputs from the host."""
    for op in workload.ops:
        for operand in op.outputs if op.type == op_names.INFEED else ():
            if operand.buffer is not None:
                yield from _seed(workload, operand.buffer)
    for index, buffer in enumerate(workload.buffers):
        if buffer.kind == INPUT:
            yield from _seed(workload, index)


def _seed(workload: Workload, index: int) -> Iterator[_Node]:
    buffer = workload.buffers[index]
    axis = buffer.batched
    if axis is None and buffer.shape[:1] == (workload.batch,):
        axis = 0
    if axis is not None:
        yield (index, -1), buffer.shape, axis


def _neighbors(workload: Workload) -> dict[_Node, set[_Node]]:
    """Returns the dimensions that are equal to each dimension."""
    near: dict[_Node, set[_Node]] = {}
    fixed = {index for index, b in enumerate(workload.buffers) if b.kind == VARIABLE}

    def join(one: _Node, two: _Node) -> None:
        if not any(owner[1] < 0 and owner[0] in fixed for owner, _, _ in (one, two)):
            near.setdefault(one, set()).add(two)
            near.setdefault(two, set()).add(one)

    for index, op in enumerate(workload.ops):
        shapes = [_seen(workload, operand) for _, operand in _operands(op)]
        nodes = [(_owner(index, place, o), shapes[place]) for place, o in _operands(op)]
        for place, operand in _operands(op):
            if operand.buffer is not None:
                buffer = workload.buffers[operand.buffer]
                for one, two in _views(buffer, shapes[place]):
                    owner, shape = nodes[place]
                    join((owner, buffer.shape, one), (owner, shape, two))
        if op.end > index + 1 and not op_names.is_loop(op.type):
            continue
        for (i, axis), (j, other) in pairs(op, shapes):
            join((*nodes[i], axis), (*nodes[j], other))
    return near


def _seen(workload: Workload, operand: Operand) -> tuple[int, ...]:
    """Returns the shape of an operand for its op: for a list of tensors, its buffer's shape."""
    if operand.shape or operand.buffer is None:
        return operand.shape
    return workload.buffers[operand.buffer].shape


def _views(buffer: Buffer, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yields equal axes of a buffer's shape and the shape that an op sees it with."""
    if buffer.shape == shape:
        return
    size = math.prod(shape)
    if size == buffer.type.elements:
        yield from views(buffer.shape, shape)
    elif buffer.entries > 1 and size == buffer.entries * buffer.type.elements:
        ahead = len(shape) - len(buffer.shape)
        yield from ((axis, axis + ahead) for axis in range(len(buffer.shape)))


class _Scaling:
    """Change of the batch size of one program."""

    def __init__(self, workload: Workload, batch: int) -> None:
        self._workload = workload
        self._new = batch
        self._old = workload.batch or 1
        self._grown = _grown(workload)

    def scaled(self) -> Workload:
        """Returns the program with the new size."""
        workload = self._workload
        buffers = tuple(self._buffer(i, buffer) for i, buffer in enumerate(workload.buffers))
        sizes = {
            before.name: (before.num_bytes, after.num_bytes)
            for before, after in zip(workload.buffers, buffers)
        }
        return dataclasses.replace(
            workload,
            ops=tuple(self._op(index, op) for index, op in enumerate(workload.ops)),
            buffers=buffers,
            copies=tuple(_scaled_copy(copy, sizes) for copy in workload.copies),
            batch=self._new,
        )

    def _shape(self, owner: _Owner, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            self._size(size, shape) if (owner, shape, axis) in self._grown else size
            for axis, size in enumerate(shape)
        )

    def _size(self, size: int, shape: tuple[int, ...]) -> int:
        """Returns a dimension with the new batch size."""
        if size * self._new % self._old:
            raise ValueError(
                f"A tensor of shape {list(shape)} has a dimension {size} that grows with the batch "
                f"size {self._old}, but {size} * {self._new} / {self._old} is no whole number. "
                f"Use a batch size that is a multiple or a divisor of {self._old}."
            )
        return size * self._new // self._old

    def _buffer(self, index: int, buffer: Buffer) -> Buffer:
        if buffer.kind == VARIABLE:
            return buffer
        return buffer._replace(shape=self._shape((index, -1), buffer.shape))

    def _op(self, index: int, op: Op) -> Op:
        scaled = [
            operand._replace(shape=self._shape(_owner(index, place, operand), operand.shape))
            for place, operand in _operands(op)
        ]
        before = (*op.inputs, *op.outputs)
        if all(one.shape == two.shape for one, two in zip(before, scaled)):
            return op
        shapes = {one.shape: two.shape for one, two in zip(before, scaled)}
        flops = None if op.flops is None else round(op.flops * self._new / self._old)
        return dataclasses.replace(
            op,
            inputs=tuple(scaled[: len(op.inputs)]),
            outputs=tuple(scaled[len(op.inputs) :]),
            attributes=_scaled_attributes(op.attributes, shapes),
            flops=flops,
        )


def _scaled_attributes(
    attributes: Mapping[str, Any], shapes: Mapping[tuple[int, ...], tuple[int, ...]]
) -> Mapping[str, Any]:
    """Returns the attributes with operands' shapes, and lists of shapes, scaled likewise."""
    scaled = {key: _scaled_value(value, shapes) for key, value in attributes.items()}
    return {**scaled, **{k: attributes[k] for k in NO_SHAPES & attributes.keys()}}


def _scaled_value(value: Any, shapes: Mapping[tuple[int, ...], tuple[int, ...]]) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    if value and isinstance(value[0], (list, tuple)):
        return type(value)(_scaled_value(item, shapes) for item in value)
    found = shapes.get(tuple(value))
    return value if found is None else type(value)(found)


def _scaled_copy(copy: Copy, sizes: Mapping[str, tuple[int, int]]) -> Copy:
    """Returns a copy with the new size of its tensor."""
    before, after = sizes.get(copy.tensor, (1, 1))
    if before == after or not before:
        return copy
    return copy._replace(num_bytes=copy.num_bytes * after // before)
