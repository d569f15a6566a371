"""Normalization of images."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, Gradient, op


@op("NormalizeImage", 1, domain=GRAPHCORE, gradient=Gradient.NONE)
def _normalize_image(image: Any, offsets: Any, scales: Any, *, scale: float = 1.0) -> Any:
    if image.dtype not in (tf.uint8, tf.float16, tf.float32) or image.shape[-1] != 3:
        raise popart_exception(
            "NormalizeImage takes images of UINT8, FLOAT16 or FLOAT with 3 channels last. "
            f"Received: {image.dtype.name} {image.shape.as_list()}"
        )
    for name, tensor in (("offsets", offsets), ("scales", scales)):
        if tensor.shape.as_list() != [3]:
            raise popart_exception(
                f"NormalizeImage: the {name} must have the shape [3]. Received: {tensor.shape}"
            )
    type_ = tf.float16 if image.dtype == tf.uint8 else image.dtype
    wide, offsets, scales = (tf.cast(tensor, tf.float32) for tensor in (image, offsets, scales))
    normal = (wide * scale - offsets) * scales
    padding = [(0, 0)] * (image.shape.rank - 1) + [(0, 1)]
    return tf.cast(tf.pad(normal, padding), type_)
