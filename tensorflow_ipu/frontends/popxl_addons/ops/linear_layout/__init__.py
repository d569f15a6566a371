"""A request for a tensor's place on the tiles; `popxl_addons.ops.linear_layout`."""

from tensorflow_ipu.frontends.popxl_addons.ops.linear_layout.linear_layout import (
    linear_layout,
)

__all__ = [
    "linear_layout",
]
