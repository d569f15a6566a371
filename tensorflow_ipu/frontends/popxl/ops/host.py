"""Transfers to and from the host: streams, remote buffers, code, and printed tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.ir import Graph
from tensorflow_ipu.frontends.popxl.ops import movement
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant
from tensorflow_ipu.runtime import native

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward


def _load_stream(lowering: GraphLowering, op: Op) -> None:
    """Takes the next element of a stream. One without elements of its own moves nothing."""
    stream = op.attributes["stream"]
    if 0 in stream.shape:
        lowering.define_outputs(op, [tf.zeros(stream.shape, tf_type(stream.dtype))])
        return
    with lowering.in_order() as done:
        (loaded,) = lowering.program.infeed(stream).dequeue()
        done.append(loaded.op)
    lowering.define_outputs(op, [loaded])


def _store_stream(lowering: GraphLowering, op: Op) -> None:
    """Adds an element to a stream."""
    stream = op.attributes["stream"]
    (value,) = lowering.read_inputs(op)
    if 0 in stream.shape:
        return
    with lowering.in_order() as done:
        done.append(lowering.program.outfeed(stream).enqueue([value]))


def _stream_load_spec(specs: shapes.Specs, stream: HostToDeviceStream) -> list[TensorSpec]:
    return [stream.spec]


def _stream_store_spec(specs: shapes.Specs, stream: DeviceToHostStream) -> list[TensorSpec]:
    for name, own, of_stream in (
        ("dtype", specs[0].dtype, stream.dtype),
        ("shape", specs[0].shape, stream.shape),
    ):
        if own != of_stream:
            raise ValueError(
                f"The {name} of the tensor, {own}, does not match that of {stream!r}: {of_stream}."
            )
    return []


_HOST_LOAD = register(
    OpKind(
        "HostLoad", _stream_load_spec, gradient=GradientRule.CUT, effect=True, lower=_load_stream
    )
)


_HOST_STORE = register(
    OpKind(
        "HostStore", _stream_store_spec, gradient=GradientRule.CUT, effect=True, lower=_store_stream
    )
)


def host_load(h2d_stream: HostToDeviceStream, name: str | None = None) -> Tensor:
    """Returns the next tensor of a stream; each time that the op runs, another one.

    Args:
        h2d_stream: the stream.
        name: name of the tensor, to which `_hostload` is added; that of the stream by default.
    """
    name = name or h2d_stream.tensor_id
    # The tensor that the load fills.
    target = movement.init(h2d_stream.shape, h2d_stream.dtype, f"{name}_init", "undef")
    return building.add(_HOST_LOAD, target, name=f"{name}_hostload", stream=h2d_stream)


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Adds a tensor to a stream, each time that the op runs.

    Args:
        d2h_stream: the stream.
        t: a tensor of its shape and type.

    Raises:
        ValueError: If shape or type differ.
    """
    building.add_all(_HOST_STORE, [t], stream=d2h_stream)


def _entry(lowering: GraphLowering, op: Op) -> Any:
    """Returns the number of the entry that an op names."""
    offset = op.attributes["offset"]
    if offset is not None:
        return tf.constant(offset)
    return tf.reshape(lowering.read_inputs(op)[-1], [])


def _load_entry(lowering: GraphLowering, op: Op) -> None:
    buffer = lowering.program.remote(op.attributes["buffer"])
    entry = _entry(lowering, op)
    with lowering.in_order() as done:
        loaded = buffer.load(entry)
        done.append(loaded.op)
    lowering.define_outputs(op, [loaded])


def _store_entry(lowering: GraphLowering, op: Op) -> None:
    buffer = lowering.program.remote(op.attributes["buffer"])
    entry, value = _entry(lowering, op), lowering.read_inputs(op)[0]
    with lowering.in_order() as done:
        done.append(buffer.store(entry, value))


def _entry_load_spec(specs: shapes.Specs, buffer: RemoteBuffer, **_: Any) -> list[TensorSpec]:
    return [buffer.spec]


def _entry_store_spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    return []


_REMOTE_LOAD = register(
    OpKind(
        "RemoteLoad", _entry_load_spec, gradient=GradientRule.CUT, effect=True, lower=_load_entry
    )
)


_LOAD_ = register(
    OpKind(
        "RemoteLoadInplace",
        _entry_load_spec,
        gradient=GradientRule.REFUSED,
        writes=(0,),
        view=views.whole,
        effect=True,
        lower=_load_entry,
    )
)


_REMOTE_STORE = register(
    OpKind(
        "RemoteStore", _entry_store_spec, gradient=GradientRule.CUT, effect=True, lower=_store_entry
    )
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
    """Loads an entry of a remote buffer.

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
    target = movement.init(
        remote_buffer.tensor_shape, remote_buffer.tensor_dtype, f"{name}_remote_load", "undef"
    )
    return building.add(_REMOTE_LOAD, target, entry, name=f"{name}_remote_loaded", **attributes)


def remote_load_(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> Tensor:
    """Loads an entry of a remote buffer into a tensor.

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
    building.add_all(_REMOTE_STORE, [t, entry], **attributes)


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


_FLOAT_FORMATS = ("auto", "fixed", "scientific", "none")


def _print(
    t: Any, title: str, print_self: bool, print_gradient: bool, layout: Mapping[str, Any]
) -> Any:
    if not print_self:
        return tf.identity(t)
    printed = native.ops().ipu_print_tensor(t, tensor_name=title, **layout)
    with tf.control_dependencies([printed]):
        return tf.identity(t)


def _differentiate_print(backward: Backward, op: Op) -> None:
    """Passes the gradient on, and prints it if that is asked for."""
    gradient = backward.gradient(op.outputs[0])
    if gradient is None:
        return
    if op.attributes["print_gradient"]:
        title = f"{op.attributes['title']}_gradient"
        attributes = {**op.attributes, "title": title, "print_self": True, "print_gradient": False}
        gradient = building.add(_PRINT, gradient, **attributes)
    backward.add_gradient(op.inputs[0], gradient)


_PRINT = register(
    OpKind("PrintTensor", shapes.same, _print, effect=True, differentiate=_differentiate_print)
)


def print_tensor(
    t: Tensor,
    title: str | None = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """Returns a tensor, and prints it to the standard error stream each time that the op runs.

    Args:
        t: the tensor.
        title: the text before it; `print_` and its name by default.
        print_self: whether to print the tensor.
        print_gradient: whether to print its gradient, in gradient graphs.
        summarise_threshold: number of elements above which only some are printed.
        edge_items: how many of them, at each end of each axis.
        max_line_width: characters of a line.
        digits: digits of a real number.
        float_format: "fixed" or "scientific" notation; "auto": fixed, or scientific where that
            would lose or pad digits; "none": each number in the shorter one.
        separator: the text between numbers.
        open_bracket: the text before an axis.
        close_bracket: the text after an axis.

    Raises:
        ValueError: If the separator or a bracket is not one character, or a number is too small.
        KeyError: If the format is unknown.
    """
    for text in (separator, open_bracket, close_bracket):
        if len(text) != 1:
            raise ValueError(
                f"separator, open_bracket and close_bracket must be 1 character exactly: {text!r}"
            )
    for name, value, least in (
        ("summarise_threshold", summarise_threshold, 0),
        ("edge_items", edge_items, 0),
        ("max_line_width", max_line_width, 1),
        ("digits", digits, 1),
    ):
        if value < least:
            raise ValueError(f"{name} must be an integer >= {least}. Received: {value!r}")
    if float_format not in _FLOAT_FORMATS:
        raise KeyError(f"float_format must be one of {_FLOAT_FORMATS}. Received: {float_format!r}")
    building.check_in_graph(context.get_current_graph(), [t])
    title = title or f"print_{t.name}"
    layout: dict[str, Any] = {
        "summarise_threshold": summarise_threshold,
        "edge_items": edge_items,
        "max_line_width": max_line_width,
        "digits": digits,
        "float_format": float_format,
        "separator": separator,
        "open_bracket": open_bracket,
        "close_bracket": close_bracket,
    }
    attributes: dict[str, Any] = {"print_self": print_self, "print_gradient": print_gradient}
    return building.add(_PRINT, t, title=title, layout=layout, **attributes)
