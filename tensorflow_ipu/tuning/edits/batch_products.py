"""Equal dimensions of operands: products, convolutions, normalization and lookups.

The functions are rules as `batch_rules` describes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorflow_ipu.planner.workload import Op

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
