"""Scales with which tensors fit into 8-bit floats, from their largest element."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = ["LARGEST", "SCALES", "check_types", "fp8_amax_scale"]

# The largest number of each format.
LARGEST = {popxl.float8_143: 240.0, popxl.float8_152: 57344.0}
# The powers of two that scales are chosen from.
SCALES = range(-31, 32)
_TYPES = (popxl.float16, popxl.float32)


def fp8_amax_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Returns the greatest power of two with which a tensor fits into a format of 8-bit floats.

    Args:
        src: the tensor, of float16 or float32.
        dtype: the format.

    Returns:
        The exponent, an int32 scalar from -31 to 31: the largest for a tensor of zeros.

    Raises:
        RuntimeError: If types differ from these.
    """
    check_types(src, dtype)
    two = popxl.constant(2.0, popxl.float32)
    ratio = LARGEST[dtype] / ops.max(ops.abs(ops.cast(src, popxl.float32)))
    low, high = float(SCALES[0]), float(SCALES[-1])
    exponent = ops.clip(ops.floor(ops.log2(ratio)), low, high)
    # Logarithms are rounded: of a power of two they may be a little less, and near one a whole.
    is_low = ops.logical_not(ops.greater(ops.pow(two, exponent + 1.0), ratio))
    is_high = ops.greater(ops.pow(two, exponent), ratio)
    exponent = exponent + ops.cast(is_low, popxl.float32) - ops.cast(is_high, popxl.float32)
    return ops.cast(ops.clip(exponent, low, high), popxl.int32)


def check_types(t: popxl.Tensor, dtype: popxl.dtype) -> None:
    """Refuses tensors that cannot be cast to 8-bit floats, and formats that are none.

    Args:
        t: the tensor.
        dtype: the format.

    Raises:
        RuntimeError: If the tensor is not of float16 or float32, or there is no such format.
    """
    if t.dtype not in _TYPES or dtype not in LARGEST:
        raise RuntimeError(
            f"Expected a tensor of float16 or float32, and float8_143 or float8_152. Received: "
            f"{t!r} and {dtype}"
        )
