"""Products of matrices."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, ir_method, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def product_spec(
    specs: shapes.Specs, output_type: dtypes.dtype | None = None, **_: Any
) -> list[TensorSpec]:
    """The rule of `numpy.matmul`."""
    lhs, rhs = specs
    if not lhs.shape or not rhs.shape:
        raise popart_exception(
            f"MatMul doesn't support scalar operands. Received: {lhs.shape} and {rhs.shape}"
        )
    if lhs.dtype is not rhs.dtype:
        raise popart_exception(
            f"MatMul of incompatible types {shapes.type_name(lhs.dtype)} and "
            f"{shapes.type_name(rhs.dtype)}. Cast one of them: ops.cast."
        )
    left = lhs.shape if lhs.rank > 1 else (1, *lhs.shape)
    right = rhs.shape if rhs.rank > 1 else (*rhs.shape, 1)
    if left[-1] != right[-2]:
        raise popart_exception(
            f"MatMul contracting dimensions unequal: {left[-1]} and {right[-2]}, of the shapes "
            f"{lhs.shape} and {rhs.shape}."
        )
    batch = shapes.broadcast_shape([left[:-2], right[:-2]], "MatMul")
    rows = (left[-2],) if lhs.rank > 1 else ()
    columns = (right[-1],) if rhs.rank > 1 else ()
    return [TensorSpec((*batch, *rows, *columns), output_type or lhs.dtype)]


def product(lhs: Any, rhs: Any, output_type: dtypes.dtype | None = None, **_: Any) -> Any:
    """Returns the product of TensorFlow tensors, summed in the type of the result."""
    if output_type is dtypes.float32 and lhs.dtype == tf.float16:
        lhs, rhs = tf.cast(lhs, tf.float32), tf.cast(rhs, tf.float32)
    left = lhs if len(lhs.shape) > 1 else lhs[tf.newaxis]
    right = rhs if len(rhs.shape) > 1 else rhs[:, tf.newaxis]
    product = tf.matmul(left, right)
    if len(rhs.shape) == 1:
        product = tf.squeeze(product, -1)
    if len(lhs.shape) == 1:
        product = tf.squeeze(product, -1 if len(rhs.shape) == 1 else -2)
    return product if output_type is None else tf.cast(product, output_type.name)


_MATMUL = register(OpKind("MatMul", product_spec, product))


@ir_method()
def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: float | None = None,
    output_type: dtypes.DTypeLike | None = None,
    partials_type: dtypes.DTypeLike | None = None,
) -> Tensor:
    """Returns the product of two matrices, or of the matrices in two tensors, as `numpy.matmul`.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.
        available_memory_proportion: the part of a tile's memory that the product may use.
        output_type: type of the result; that of the operands by default.
        partials_type: type of the sums in between: float16 or float32.

    Raises:
        popart.popart_exception: If types differ, shapes do not fit, or one is a scalar.
        ValueError: If `partials_type` is another type.
    """
    output_type, partials_type = (
        None if given is None else dtypes.of_device(given) for given in (output_type, partials_type)
    )
    if partials_type not in (None, dtypes.float16, dtypes.float32):
        raise ValueError(
            f"partials_type must be popxl.float16 or popxl.float32. Received: {partials_type!r}"
        )
    if partials_type is None:
        context.get_ir().session_options.check_matmul_sums()
    return building.add(
        _MATMUL,
        lhs,
        rhs,
        output_type=output_type,
        memory_proportion=available_memory_proportion,
        partials_type=partials_type,
    )
