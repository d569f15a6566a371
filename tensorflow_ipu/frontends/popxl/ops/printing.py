"""Printing tensors while a program runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.runtime import native

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward

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
        title: what is printed before it; `print_` and its name by default.
        print_self: whether to print the tensor.
        print_gradient: whether to print its gradient, in gradient graphs.
        summarise_threshold: number of elements above which only some are printed.
        edge_items: how many of them, at each end of each axis.
        max_line_width: characters of a line.
        digits: digits of a real number.
        float_format: "fixed" or "scientific" notation; "auto": fixed, or scientific where that
            would lose or pad digits; "none": each number in the shorter one.
        separator: what stands between numbers.
        open_bracket: what stands before an axis.
        close_bracket: what stands after an axis.

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
