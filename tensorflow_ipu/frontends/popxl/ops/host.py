"""Loads tensors from streams and stores tensors to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.ops import casts
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.frontends.popxl.tensor import Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering


def _load(lowering: Lowering, op: Op) -> None:
    """Takes the next element of a stream. One without elements of its own moves nothing."""
    stream = op.attributes["stream"]
    if 0 in stream.shape:
        lowering.define_outputs(op, [tf.zeros(stream.shape, tf_type(stream.dtype))])
        return
    with lowering.in_order() as done:
        (loaded,) = lowering.program.infeed(stream).dequeue()
        done.append(loaded.op)
    lowering.define_outputs(op, [loaded])


def _store(lowering: Lowering, op: Op) -> None:
    """Adds an element to a stream."""
    stream = op.attributes["stream"]
    (value,) = lowering.read_inputs(op)
    if 0 in stream.shape:
        return
    with lowering.in_order() as done:
        done.append(lowering.program.outfeed(stream).enqueue([value]))


def _load_spec(specs: shapes.Specs, stream: HostToDeviceStream) -> list[TensorSpec]:
    return [stream.spec]


def _store_spec(specs: shapes.Specs, stream: DeviceToHostStream) -> list[TensorSpec]:
    for name, own, of_stream in (
        ("dtype", specs[0].dtype, stream.dtype),
        ("shape", specs[0].shape, stream.shape),
    ):
        if own != of_stream:
            raise ValueError(
                f"The {name} of the tensor, {own}, does not match that of {stream!r}: {of_stream}."
            )
    return []


_LOAD = register(OpKind("HostLoad", _load_spec, gradient=Gradient.CUT, effect=True, lower=_load))
_STORE = register(
    OpKind("HostStore", _store_spec, gradient=Gradient.CUT, effect=True, lower=_store)
)


def host_load(h2d_stream: HostToDeviceStream, name: str | None = None) -> Tensor:
    """Returns the next tensor of a stream; each time that the op runs, another one.

    Args:
        h2d_stream: the stream.
        name: name of the tensor, to which `_hostload` is added; that of the stream by default.
    """
    name = name or h2d_stream.tensor_id
    # The tensor that the load fills.
    target = casts.init(h2d_stream.shape, h2d_stream.dtype, f"{name}_init", "undef")
    return building.add(_LOAD, target, name=f"{name}_hostload", stream=h2d_stream)


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Adds a tensor to a stream, each time that the op runs.

    Args:
        d2h_stream: the stream.
        t: a tensor of its shape and type.

    Raises:
        ValueError: If shape or type differ.
    """
    building.add_all(_STORE, [t], stream=d2h_stream)
