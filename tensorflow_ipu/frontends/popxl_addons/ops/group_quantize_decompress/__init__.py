"""Weights of 4 bits with a scale for each group; `popxl_addons.ops.group_quantize_decompress`."""

from tensorflow_ipu.frontends.popxl_addons.ops.group_quantize_decompress.group_quantize_decompress import (  # noqa: E501
    group_quantize_compress_numpy,
    group_quantize_decompress,
    group_quantize_decompress_numpy,
)

__all__ = [
    "group_quantize_compress_numpy",
    "group_quantize_decompress",
    "group_quantize_decompress_numpy",
]
