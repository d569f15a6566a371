"""Ops made of those of PopXL: the module `popxl_addons.ops`."""

from tensorflow_ipu.frontends.popxl_addons.ops.cross_entropy import (
    cross_entropy,
    cross_entropy_with_grad,
)
from tensorflow_ipu.frontends.popxl_addons.ops.fp8 import fp8_amax_scale
from tensorflow_ipu.frontends.popxl_addons.ops.streams import host_load, host_store

__all__ = ["cross_entropy", "cross_entropy_with_grad", "fp8_amax_scale", "host_load", "host_store"]
