"""B-splines over the edges of graphs (Fey et al., "SplineCNN", 2018)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, Gradient, op

_FLOATS = (tf.float32, tf.float16)
# The pieces of uniform B-splines by degree.
_PIECES: tuple[tuple[Callable[[Any], Any], ...], ...] = (
    (tf.ones_like,),
    (lambda v: 1 - v, lambda v: v),
    (lambda v: v * v / 2 - v + 0.5, lambda v: -v * v + v + 0.5, lambda v: v * v / 2),
    (
        lambda v: (1 - v) ** 3 / 6,
        lambda v: (3 * v**3 - 6 * v**2 + 4) / 6,
        lambda v: (-3 * v**3 + 3 * v**2 + 3 * v + 1) / 6,
        lambda v: v**3 / 6,
    ),
)


@op("SplineBasis", 1, domain=GRAPHCORE, gradient=Gradient.NONE)
def _spline_basis(pseudo: Any, kernel_size: Any, is_open: Any, *, degree: int = 1) -> list[Any]:
    if (pseudo.shape.rank, kernel_size.shape.rank, is_open.shape.rank) != (2, 1, 1):
        raise popart_exception("SplineBasis needs inputs of the ranks 2, 1 and 1.")
    if not 0 <= degree < len(_PIECES):
        raise popart_exception(f"SplineBasis has the degrees 0 to 3. Received: {degree}")
    dimensions = pseudo.shape[1]
    if kernel_size.shape[0] != dimensions or is_open.shape[0] != dimensions:
        raise popart_exception(
            f"SplineBasis: kernel_size and is_open_spline need one number for each of {dimensions} "
            f"dimensions. Received the shapes: {kernel_size.shape}, {is_open.shape}"
        )
    sizes = tf.cast(kernel_size, tf.int32)
    knots = sizes - degree * tf.cast(is_open, tf.int32)
    places = tf.cast(pseudo, tf.float32) * tf.cast(knots, tf.float32)
    whole = tf.floor(places)
    pieces = tf.stack([piece(places - whole) for piece in _PIECES[degree]], -1)
    # For each product which piece it takes in each dimension: [products, dimensions].
    digits = np.indices([degree + 1] * dimensions).reshape(dimensions, -1)[::-1].T
    chosen = [tf.gather(pieces[:, d], digits[:, d], axis=1) for d in range(dimensions)]
    basis = tf.reduce_prod(tf.stack(chosen, -1), -1)
    strides = tf.math.cumprod(sizes, exclusive=True)
    first = tf.cast(whole, tf.int32)[:, tf.newaxis]
    index = tf.math.floormod(first + tf.constant(digits, tf.int32), sizes)
    return [tf.cast(basis, pseudo.dtype), tf.reduce_sum(index * strides, -1)]


@op("SplineWeighting", 1, domain=GRAPHCORE, gradient=Gradient.NONE)
def _spline_weighting(x: Any, weights: Any, basis: Any, index: Any) -> Any:
    ranks = tuple(tensor.shape.rank for tensor in (x, weights, basis, index))
    if ranks != (2, 3, 2, 2):
        raise popart_exception(
            f"SplineWeighting needs inputs of the ranks 2, 3, 2 and 2. Received: {ranks}"
        )
    types = [tensor.dtype for tensor in (x, weights, basis)]
    if len(set(types)) > 1 or types[0] not in _FLOATS or not index.dtype.is_integer:
        raise popart_exception(
            "SplineWeighting needs x, weights and basis of one type, FLOAT or FLOAT16, and indices "
            f"of integers. Received: {', '.join(t.name for t in types)}, {index.dtype.name}"
        )
    chosen = tf.gather(weights, tf.cast(index, tf.int32))
    weighted = tf.matmul(x[:, tf.newaxis, tf.newaxis], chosen)[:, :, 0]
    return tf.reduce_sum(basis[..., tf.newaxis] * weighted, 1)
