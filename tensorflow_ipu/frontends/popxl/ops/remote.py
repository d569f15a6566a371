"""Loads tensors from remote buffers and stores tensors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.ops import casts
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering


def _entry(lowering: Lowering, op: Op) -> Any:
    """Returns the number of the entry that an op names."""
    offset = op.attributes["offset"]
    if offset is not None:
        return tf.constant(offset)
    return tf.reshape(lowering.read_inputs(op)[-1], [])


def _load(lowering: Lowering, op: Op) -> None:
    buffer = lowering.program.remote(op.attributes["buffer"])
    entry = _entry(lowering, op)
    with lowering.in_order() as done:
        loaded = buffer.load(entry)
        done.append(loaded.op)
    lowering.define_outputs(op, [loaded])


def _store(lowering: Lowering, op: Op) -> None:
    buffer = lowering.program.remote(op.attributes["buffer"])
    entry, value = _entry(lowering, op), lowering.read_inputs(op)[0]
    with lowering.in_order() as done:
        done.append(buffer.store(entry, value))


def _load_spec(specs: shapes.Specs, buffer: RemoteBuffer, **_: Any) -> list[TensorSpec]:
    return [buffer.spec]


def _store_spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    return []


_LOAD = register(OpKind("RemoteLoad", _load_spec, gradient=Gradient.CUT, effect=True, lower=_load))
_LOAD_ = register(
    OpKind(
        "RemoteLoadInplace",
        _load_spec,
        gradient=Gradient.REFUSED,
        writes=(0,),
        view=views.whole,
        effect=True,
        lower=_load,
    )
)
_STORE = register(
    OpKind("RemoteStore", _store_spec, gradient=Gradient.CUT, effect=True, lower=_store)
)


def _offset(buffer: RemoteBuffer, offset: int | Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Returns the tensor and the attributes for the number of an entry."""
    if isinstance(offset, Tensor):
        if offset.nelms != 1 or not offset.dtype.is_int:
            raise ValueError(
                f"The offset must be an int or a tensor of one integer. Received: {offset!r}"
            )
        return offset, {"offset": None, "buffer": buffer}
    number = buffer.check_offset(offset)
    tensor = constant(number, dtypes.uint32, "offset")
    return tensor, {"offset": number, "buffer": buffer}


def remote_load(
    remote_buffer: RemoteBuffer, offset: int | Tensor, name: str | None = None
) -> Tensor:
    """Returns what an entry of a buffer holds.

    Loads and stores have no data dependency on each other: order them with `in_sequence`.

    Args:
        remote_buffer: the buffer.
        offset: the number of the entry: an int, or a tensor of one integer.
        name: name of the tensor.

    Raises:
        ValueError: If there is no such entry, or `offset` is no integer.
    """
    entry, attributes = _offset(remote_buffer, offset)
    name = name or f"id_{remote_buffer.remote_buffer_id}_offset_{entry.name}"
    # The tensor that the load fills.
    target = casts.init(
        remote_buffer.tensor_shape, remote_buffer.tensor_dtype, f"{name}_remote_load", "undef"
    )
    return building.add(_LOAD, target, entry, name=f"{name}_remote_loaded", **attributes)


def remote_load_(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> Tensor:
    """Writes what an entry of a buffer holds into a tensor.

    Args:
        remote_buffer: the buffer.
        offset: the number of the entry: an int, or a tensor of one integer.
        t: the tensor.

    Returns:
        A view of the tensor, with the meta shape of the buffer.

    Raises:
        ValueError: If the tensor is not like an entry, or as `remote_load` does.
    """
    building.check_tensor(t)
    remote_buffer.validate_tensor_matches_buffer(t)
    entry, attributes = _offset(remote_buffer, offset)
    return building.add(_LOAD_, t, entry, **attributes)


def remote_store(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> None:
    """Stores a tensor in an entry of a buffer.

    Args:
        remote_buffer: the buffer.
        offset: the number of the entry: an int, or a tensor of one integer.
        t: the tensor.

    Raises:
        ValueError: If the tensor is not like an entry, or as `remote_load` does.
    """
    building.check_tensor(t)
    remote_buffer.validate_tensor_matches_buffer(t)
    entry, attributes = _offset(remote_buffer, offset)
    building.add_all(_STORE, [t, entry], **attributes)


def remote_code_load(graph: Graph, destination: str = "executable") -> None:
    """Does nothing: on the chip it loads the code of a graph from remote memory to the tiles.

    Args:
        graph: the graph.
        destination: where the code goes: "executable".

    Raises:
        NotImplementedError: For another destination.
        ValueError: If the graph is the current one.
    """
    if destination != "executable":
        raise NotImplementedError(
            f"Code can be loaded to the destination 'executable' only. Received: {destination!r}"
        )
    if graph is context.get_current_graph():
        raise ValueError(
            f"The remote_code_load op cannot load the code of the graph that it is in, {graph!r}. "
            "Call it in a graph that calls this one."
        )
