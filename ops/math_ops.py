"""Serialized matrix products and segment sums: the public module `ipu.math_ops`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops import serial_loop

# The dimensions of a product of [rows, inner] and [inner, columns].
_ROWS, _INNER, _COLUMNS = "rows", "inner", "columns"
_DIMENSIONS = {"a_columns": _ROWS, "a_rows_b_columns": _INNER, "b_rows": _COLUMNS}
_TYPES = (tf.float16, tf.float32, tf.int32)


def serialized_matmul(
    a: Any,
    b: Any,
    serialization_factor: int,
    serialization_dimension: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Multiplies matrices in several smaller products, one after the other.

    With `a` of the shape [..., m, k] and `b` of the shape [..., k, n], after transpositions, a loop
    of `serialization_factor` iterations goes over parts of m, k or n. The gradients are loops over
    parts of the same dimension.

    Args:
        a: float16, float32 or int32, rank >= 2.
        b: like `a`, with the same type. The outer dimensions broadcast as in `tf.matmul`: they may
            be 1 or be missing where the other operand has them.
        serialization_factor: number of smaller products. It divides the size of the dimension.
        serialization_dimension: "a_columns" for m, "a_rows_b_columns" for k, "b_rows" for n.
        transpose_a: whether the inner two dimensions of `a` are swapped first.
        transpose_b: the same for `b`.
        name: name for the operation.

    Returns:
        [..., m, n], of the type of `a`. Equal to `tf.matmul` but for the order of the sums over k,
        which are added in float32 where the type is float16.

    Raises:
        TypeError: the types differ, or are none of those.
        ValueError: the shapes do not fit, a rank is less than 2, there is no such dimension,
            or the factor does not divide it.
    """
    if serialization_dimension not in _DIMENSIONS:
        raise ValueError(
            f"serialization_dimension must be one of {', '.join(map(repr, _DIMENSIONS))}. "
            f"Received: {serialization_dimension!r}"
        )
    with tf.name_scope(name or "serialized_matmul"):
        a, b = tf.convert_to_tensor(a, name="a"), tf.convert_to_tensor(b, name="b")
        _check_types(a, b)
        _check_shapes(a, b, transpose_a, transpose_b)
        product = _Product(_DIMENSIONS[serialization_dimension], 1, transpose_a, transpose_b)
        size = product.size(a, b)
        factor = serial_loop.check_factor(
            serialization_factor, size, f"the dimension {serialization_dimension!r}"
        )
        if factor == 1:
            return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        if size is None and product.dimension == _INNER:
            raise ValueError(
                "The dimension 'a_rows_b_columns' must be known to split it. Received: a of shape "
                f"{a.shape}, b of shape {b.shape}"
            )
        return _Product(product.dimension, factor, transpose_a, transpose_b)(a, b)


def segment_sum(
    data: Any, segment_ids: Any, num_segments: int, name: str | None = None
) -> tf.Tensor:
    """Sums the rows of each segment.

    Args:
        data: [n, ...], float16, float32 or int32, of a shape that is fully known.
        segment_ids: [n], integers in [0, num_segments), sorted. Segments may be empty.
        num_segments: number of segments, known when the program is built.
        name: name for the operation.

    Returns:
        [num_segments, ...]: row i is the sum of the rows of `data` whose id is i, 0 without any.

    Raises:
        TypeError: the ids are not integers.
        ValueError: the ids are no vector as long as `data`, a shape is not fully known, or the
            number is less than 1 or unknown.
    """
    with tf.name_scope(name or "segment_sum"):
        data, ids = tf.convert_to_tensor(data), tf.convert_to_tensor(segment_ids)
        if not ids.dtype.is_integer:
            raise TypeError(f"segment_ids must be integers. Received: {ids.dtype.name}")
        _check_segments(data.shape, ids.shape)
        segments = tf.get_static_value(num_segments)
        if segments is None:
            raise ValueError(
                "num_segments must be an int that is known when the program is built. Received: "
                f"{num_segments!r}"
            )
        if segments < 1:
            raise ValueError(f"num_segments must be greater than 0; got {segments}.")
        return tf.math.unsorted_segment_sum(data, ids, int(segments))


def _check_segments(data: tf.TensorShape, ids: tf.TensorShape) -> None:
    """Checks the shapes of the arguments of `segment_sum`."""
    for argument, shape in (("data", data), ("segment_ids", ids)):
        if not shape.is_fully_defined():
            raise ValueError(
                f"Shape of {argument} must be fully defined. Received: {shape}. Set it with "
                "tf.ensure_shape."
            )
    if data.rank == 0:
        raise ValueError("Shape () must have rank at least 1: data has a row for each id.")
    if ids.rank != 1:
        raise ValueError(
            f"Shape {ids} must have rank 1: segment_ids has an entry for each row of data."
        )
    if ids[0] != data[0]:
        raise ValueError(
            f"segment_ids (shape {ids}) must have same length as axis 0 of data (shape {data})."
        )


@dataclass(frozen=True)
class _Product:
    """A product that is done in parts.

    Args:
        dimension: which dimension of the product is split.
        parts: into how many parts.
        transpose_a: whether `a` is [..., inner, rows].
        transpose_b: whether `b` is [..., columns, inner].
    """

    dimension: str
    parts: int
    transpose_a: bool
    transpose_b: bool

    def __call__(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        """Multiplies [..., rows, inner] and [..., inner, columns], with gradients in parts."""

        @tf.custom_gradient
        def product(a: tf.Tensor, b: tf.Tensor) -> Any:
            def gradients(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                of_a, of_b = self._gradients(a, b, gradient)
                return _summed_like(of_a, a), _summed_like(of_b, b)

            return self._compute(a, b), gradients

        return product(a, b)

    def size(self, a: tf.Tensor, b: tf.Tensor) -> int | None:
        """Returns the size of the dimension that is split; None if it is not known."""
        sizes = []
        if self.dimension in (_ROWS, _INNER):
            sizes.append(a.shape[self._axis_of_a(a)])
        if self.dimension in (_INNER, _COLUMNS):
            sizes.append(b.shape[self._axis_of_b(b)])
        return next((size for size in sizes if size is not None), None)

    def _axis_of_a(self, a: tf.Tensor) -> int:
        return len(a.shape) - (2 if (self.dimension == _ROWS) != self.transpose_a else 1)

    def _axis_of_b(self, b: tf.Tensor) -> int:
        return len(b.shape) - (2 if (self.dimension == _INNER) != self.transpose_b else 1)

    def _compute(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        batch = _batch(a, b)
        rows = _shape(a)[-1 if self.transpose_a else -2]
        columns = _shape(b)[-2 if self.transpose_b else -1]
        if self.dimension == _INNER:
            return self._sum(a, b, [*batch, rows, columns])
        if self.dimension == _ROWS:
            part = [*batch, rows // self.parts, columns]
        else:
            part = [*batch, rows, columns // self.parts]
        pieces = serial_loop.stack(self.parts, lambda i: self._part(a, b, i), part, a.dtype)
        # [parts, ..., rows, columns] -> [..., parts, rows, columns], or columns last but one.
        outer = list(range(1, len(batch) + 1))
        here = len(batch) + 1
        order = (
            [*outer, 0, here, here + 1] if self.dimension == _ROWS else [*outer, here, 0, here + 1]
        )
        if order != sorted(order):
            pieces = tf.transpose(pieces, order)
        # This also refuses a size that was not known before and does not divide.
        return tf.reshape(pieces, [*batch, rows, columns])

    def _sum(self, a: tf.Tensor, b: tf.Tensor, shape: list[Any]) -> tf.Tensor:
        """Adds the products of the parts, float16 in float32."""
        dtype = tf.float32 if a.dtype == tf.float16 else a.dtype

        def step(index: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
            return total + tf.cast(self._part(a, b, index), dtype)

        return tf.cast(serial_loop.fold(self.parts, step, tf.zeros(shape, dtype)), a.dtype)

    def _part(self, a: tf.Tensor, b: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Multiplies part `index` of `a` or `b`, or of both."""
        if self.dimension in (_ROWS, _INNER):
            axis = self._axis_of_a(a)
            a = serial_loop.slice_of(a, axis, index, _shape(a)[axis] // self.parts)
        if self.dimension in (_INNER, _COLUMNS):
            axis = self._axis_of_b(b)
            b = serial_loop.slice_of(b, axis, index, _shape(b)[axis] // self.parts)
        return tf.matmul(a, b, transpose_a=self.transpose_a, transpose_b=self.transpose_b)

    def _gradients(
        self, a: tf.Tensor, b: tf.Tensor, gradient: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the gradients: with C = AB, dA = dC Bᵀ and dB = Aᵀ dC, or their transposes."""
        if self.transpose_a:
            of_a = self._like(
                {_COLUMNS: _INNER, _INNER: _ROWS, _ROWS: _COLUMNS}, self.transpose_b, True
            )
            gradient_a = of_a(b, gradient)
        else:
            of_a = self._like(
                {_ROWS: _ROWS, _COLUMNS: _INNER, _INNER: _COLUMNS}, False, not self.transpose_b
            )
            gradient_a = of_a(gradient, b)
        if self.transpose_b:
            of_b = self._like(
                {_COLUMNS: _ROWS, _ROWS: _INNER, _INNER: _COLUMNS}, True, self.transpose_a
            )
            gradient_b = of_b(gradient, a)
        else:
            of_b = self._like(
                {_INNER: _ROWS, _ROWS: _INNER, _COLUMNS: _COLUMNS}, not self.transpose_a, False
            )
            gradient_b = of_b(a, gradient)
        return gradient_a, gradient_b

    def _like(self, roles: dict[str, str], transpose_a: bool, transpose_b: bool) -> _Product:
        """Returns a product that is split along the same dimension, in another role."""
        return _Product(roles[self.dimension], self.parts, transpose_a, transpose_b)


def _batch(a: tf.Tensor, b: tf.Tensor) -> list[Any]:
    """Returns the sizes of the outer dimensions that both operands broadcast to."""
    known = tf.broadcast_static_shape(a.shape[:-2], b.shape[:-2])
    if known.is_fully_defined():
        return known.as_list()
    dynamic = tf.broadcast_dynamic_shape(tf.shape(a)[:-2], tf.shape(b)[:-2])
    return [dynamic[i] if size is None else size for i, size in enumerate(known)]


def _summed_like(gradient: tf.Tensor, operand: tf.Tensor) -> tf.Tensor:
    """Sums the gradient of an operand over the outer dimensions that were broadcast."""
    if gradient.shape.is_fully_defined() and gradient.shape == operand.shape:
        return gradient
    shape = tf.shape(operand)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(gradient))
    summed = tf.reshape(tf.reduce_sum(gradient, axes), shape)
    return tf.ensure_shape(summed, operand.shape)


def _shape(tensor: tf.Tensor) -> list[Any]:
    """Returns the sizes of a tensor's dimensions: ints where they are known, else tensors."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]


def _check_types(a: tf.Tensor, b: tf.Tensor) -> None:
    if a.dtype != b.dtype or a.dtype not in _TYPES:
        raise TypeError(
            f"a and b must have the same type, {', '.join(dtype.name for dtype in _TYPES)}. "
            f"Received: {a.dtype.name} and {b.dtype.name}"
        )


def _broadcast(a: tf.TensorShape, b: tf.TensorShape) -> bool:
    """Returns whether shapes broadcast with each other, as far as is known."""
    try:
        tf.broadcast_static_shape(a, b)
    except ValueError:
        return False
    return True


def _check_shapes(a: tf.Tensor, b: tf.Tensor, transpose_a: bool, transpose_b: bool) -> None:
    expected = None
    if a.shape.rank is None or b.shape.rank is None or min(a.shape.rank, b.shape.rank) < 2:
        expected = "must have rank 2 or more"
    elif not _broadcast(a.shape[:-2], b.shape[:-2]):
        expected = "must have outer dimensions that broadcast with each other"
    else:
        inner = a.shape[-2 if transpose_a else -1], b.shape[-1 if transpose_b else -2]
        if None not in inner and inner[0] != inner[1]:
            expected = f"must agree in the dimension that is summed over, not {inner}"
    if expected:
        raise ValueError(f"a and b {expected}. Received: shapes {a.shape} and {b.shape}")
