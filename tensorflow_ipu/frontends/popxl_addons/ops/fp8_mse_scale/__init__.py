"""The scale with which 8-bit floats are closest; `popxl_addons.ops.fp8_mse_scale`."""

from tensorflow_ipu.frontends.popxl_addons.ops.fp8_mse_scale.fp8_mse_scale import (
    fp8_mse_scale,
)

__all__ = [
    "fp8_mse_scale",
]
