"""The scale with which 8-bit floats are closest; `popxl_addons.ops.fp8_mse_scale`."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.ops.fp8_amax_scale import LARGEST, SCALES, check_types

__all__ = ["fp8_mse_scale"]


# In this order the first of equally good scales is the one that changes the least.
_ORDER = sorted(SCALES, key=lambda scale: (abs(scale), scale))


def fp8_mse_scale(t: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Returns the power of two with which 8-bit floats have the least mean squared error.

    Numbers that are too large become the largest of the format. All powers are tried in a loop.

    Args:
        t: the tensor, of float16 or float32.
        dtype: the format.

    Returns:
        The exponent, an int32 scalar from -31 to 31.

    Raises:
        RuntimeError: If types differ from these.
    """
    check_types(t, dtype)
    largest = LARGEST[dtype]

    def body(
        count: popxl.Tensor, best: popxl.Tensor, least: popxl.Tensor, x: popxl.Tensor
    ) -> tuple[popxl.Tensor, ...]:
        scale = popxl.constant(np.array(_ORDER, np.int32))[count]
        factor = ops.pow(popxl.constant(2.0, popxl.float32), ops.cast(scale, popxl.float32))
        zero = popxl.constant(0, popxl.int32)
        scaled = ops.clip(x * factor, -largest, largest)
        codes = ops.pow2scale_cast_to_fp8(scaled, zero, dtype)
        back = ops.pow2scale_cast_from_fp8(codes, zero, popxl.float32) / factor
        error = ops.mean((back - x) * (back - x))
        is_better = ops.greater(least, error)
        return (
            count + 1,
            ops.where(is_better, scale, best),
            ops.where(is_better, error, least),
        )

    x = ops.cast(t, popxl.float32)
    starts = (
        popxl.constant(0, popxl.int32),
        popxl.constant(0, popxl.int32),
        popxl.constant(np.inf, popxl.float32),
    )
    graph = popxl.gir().create_graph(body, *starts, x)
    return ops.repeat(graph, len(_ORDER), *starts, x)[1]
