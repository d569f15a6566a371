"""Casts between types, tensors without inputs, and copies between IPUs and tiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, ir_method, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import UndefinedValue
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def _cast_spec(specs: shapes.Specs, data_type: dtypes.dtype) -> list[TensorSpec]:
    return [specs[0].with_dtype(data_type)]


def _cast(t: Any, data_type: dtypes.dtype) -> Any:
    return tf.cast(t, tf_type(data_type))


def _init_spec(specs: shapes.Specs, spec: TensorSpec) -> list[TensorSpec]:
    return [spec]


_CAST = register(OpKind("Cast", _cast_spec, _cast))
_INIT = register(OpKind("Init", _init_spec, lambda spec: tf.zeros(spec.shape, tf_type(spec.dtype))))
_IPU_COPY = register(OpKind("IpuCopy", shapes.same, lambda t, **_: tf.identity(t)))
_IO_TILE_COPY = register(OpKind("IoTileCopy", shapes.same, tf.identity))


def cast(t: Tensor, data_type: dtypes.DTypeLike) -> Tensor:
    """Casts a tensor to another type. Floats are truncated to integers.

    Args:
        t: the tensor.
        data_type: the type.

    Raises:
        TypeError: For a type of 8-bit floats.
    """
    data_type = dtypes.of_device(data_type)
    if data_type.is_float8:
        raise TypeError(
            f"Casting to {data_type} is not supported for ops.cast. Use ops.pow2scale_cast_to_fp8."
        )
    building.check_tensor(t)
    return building.add(_CAST, t, name=f"{t.name}_{data_type.name}", data_type=data_type)


def init(
    shape: Iterable[int],
    dtype: dtypes.DTypeLike,
    name: str | None = None,
    init_type: str = "zero",
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Returns a new tensor, each time that the op runs.

    Args:
        shape: its shape.
        dtype: type of its elements.
        name: its name.
        init_type: "zero", or "undef" if its elements are written before they are read.
        meta_shape: for a shard, the shape of the whole.

    Raises:
        ValueError: If `init_type` is something else.
    """
    if init_type not in ("zero", "undef"):
        raise ValueError(f"Unknown init_type: {init_type!r}. Expected: 'zero' or 'undef'.")
    spec = TensorSpec(tuple(shape), dtypes.of_device(dtype), tuple(meta_shape or ()))
    return building.add(_INIT, name=name or "init", spec=spec)


def io_tile_copy(t: Tensor) -> Tensor:
    """Returns a copy of a tensor on the other tile set of its IPU.

    Args:
        t: the tensor.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    try:
        on_io_tiles = t.tile_set == "io"
    except UndefinedValue:
        on_io_tiles = False
    with context.on_tiles("compute" if on_io_tiles else "io"):
        return building.add(_IO_TILE_COPY, t)


@ir_method()
def ipu_copy(t: Tensor, destination: int, source: int | None = None) -> Tensor:
    """Returns a copy of a tensor on another IPU.

    Args:
        t: the tensor.
        destination: the IPU that it is copied to.
        source: the IPU that it is on; that of the tensor by default.

    Raises:
        ValueError: If nothing says on which IPU the tensor is.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    if source is None:
        try:
            source = t.ipu
        except UndefinedValue:
            raise ValueError(
                f"Could not infer the ipu of {t!r}. Please specify `source`, the IPU that it is on."
            ) from None
    with context.ipu(destination):
        return building.add(_IPU_COPY, t, name=f"{t.name}_c{destination}", source=source)
