"""Windows over images: channels-last layouts, padding, strides and sizes of results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands

# --- Layouts: ONNX has channels second, TensorFlow's kernels have them last ---

# A tensor that an op makes with channels last keeps that form beside the one of ONNX. Ops that can
# take either go on with it, so that a network is transposed where it begins and ends and not around
# each op. What nobody takes is not computed.

# On a tensor of ONNX's layout: the same with channels last.
_LAST = "_popart_channels_last"


def last_of(x: Any) -> Any:
    """Returns the form of a tensor with channels last, if there is one already; else None.

    Args:
        x: the tensor [batch, channels, ...].
    """
    return getattr(x, _LAST, None)


def channels_last(x: Any) -> Any:
    """Returns a tensor with channels last.

    Args:
        x: the tensor [batch, channels, ...].
    """
    found = last_of(x)
    if found is not None:
        return found
    return tf.transpose(x, [0, *range(2, x.shape.rank), 1])


def channels_second(y: Any) -> Any:
    """Returns a tensor in ONNX's layout; the layout with channels last is kept beside it.

    Args:
        y: the tensor [batch, ..., channels].
    """
    rank = y.shape.rank
    result = tf.transpose(y, [0, rank - 1, *range(1, rank - 1)])
    setattr(result, _LAST, y)
    return result


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: an elementwise function keeps channels last if its inputs have that layout.

    Args:
        function: takes tensors; each element of the result is of those at the same place.
    """

    def computed(*tensors: Any) -> Any:
        forms = [last_of(tensor) for tensor in tensors]
        same = all(tensor.shape == tensors[0].shape for tensor in tensors)
        if not same or any(form is None for form in forms):
            return function(*tensors)
        return channels_second(function(*forms))

    return computed


def gradients(loss: Any, tensors: Sequence[Any], start: Any) -> list[Any]:
    """Returns gradients by tensors that ops may have gone on with in the other form.

    Args:
        loss: the tensor or tensors to differentiate.
        tensors: the tensors to differentiate by.
        start: the gradient of the loss, or of each.
    """
    forms = [last_of(tensor) for tensor in tensors]
    wanted = [tensor if form is None else form for tensor, form in zip(tensors, forms)]
    found = tf.gradients(loss, wanted, grad_ys=start)
    return [
        gradient if form is None or gradient is None else channels_second(gradient)
        for gradient, form in zip(found, forms)
    ]


# --- Windows of convolutions and pools ---


def pads_of(
    pads: Sequence[int] | None,
    auto_pad: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    """Returns the padding before and after each spatial dimension.

    Args:
        pads: as in ONNX: all before, then all after; None for 0.
        auto_pad: "NOTSET", "VALID", "SAME_UPPER" or "SAME_LOWER".
        sizes: of the data.
        kernel: sizes of the window.
        strides: of the window.
        dilations: of the window.
    """
    rank = len(sizes)
    if auto_pad in ("NOTSET", ""):
        given = list(pads) if pads else [0] * (2 * rank)
        return list(zip(given[:rank], given[rank:]))
    if auto_pad == "VALID":
        return [(0, 0)] * rank
    found = []
    for size, window, stride, dilation in zip(sizes, kernel, strides, dilations):
        wide = (window - 1) * dilation + 1
        total = max(0, (-(-size // stride) - 1) * stride + wide - size)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return found


def parts(values: Sequence[Any], counts: Sequence[int]) -> list[list[Any]]:
    """Returns lists that are one after the other in one list.

    Args:
        values: the one list.
        counts: how many values each has.
    """
    ends = itertools.accumulate(counts)
    return [list(values[end - count : end]) for count, end in zip(counts, ends)]


def padding_of(
    widths: Sequence[tuple[int, int]],
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> str:
    """Returns "SAME" if TensorFlow's padding of that name has these widths, else "VALID".

    Args:
        widths: padding before and after each spatial dimension.
        sizes: of the data.
        kernel: sizes of the window.
        strides: of the window.
        dilations: of the window.
    """
    for (low, high), size, window, stride, dilation in zip(
        widths, sizes, kernel, strides, dilations
    ):
        count = -(-size // stride)
        total = max(0, (count - 1) * stride + (window - 1) * dilation + 1 - size)
        if (low, high) != (total // 2, total - total // 2):
            return "VALID"
    return "SAME" if any(map(any, widths)) else "VALID"


def check(
    type_: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    pads: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> None:
    """Refuses windows that do not fit the data.

    Args:
        type_: the op, for errors.
        sizes: of the data.
        kernel: sizes of the window.
        strides: of the window.
        pads: as in ONNX.
        dilations: of the window.

    Raises:
        popart_exception: If there are no dimensions, or lists have other lengths.
    """
    rank = len(sizes)
    if rank == 0:
        raise popart_exception(f"Input tensor has no spatial dimensions, which {type_} needs.")
    for told, given, length in (
        ("Length of strides vector", strides, rank),
        ("Length of dilations vector", dilations, rank),
        ("Length of the kernel shape", kernel, rank),
    ):
        if given and len(given) != length:
            raise popart_exception(f"{told} {len(given)} != number of spatial dimensions {length}")
    if pads and len(pads) != 2 * rank:
        raise popart_exception(
            f"Padding vector (length {len(pads)}) does not have 2 values for each spatial "
            f"dimension {rank} of {type_}."
        )
    spaces, steps = dilations or [1] * rank, strides or [1] * rank
    given = list(pads or [0] * (2 * rank))
    rest = [
        size + given[i] + given[i + rank] - (kernel[i] - 1) * spaces[i] - 1
        for i, size in enumerate(sizes)
    ]
    if min(rest) < 0:
        found = [int(size / step) + 1 for size, step in zip(rest, steps)]
        raise popart_exception(
            "Window parameter values combine to give invalid spatial output shape: "
            f"{operands.shape_text(found)}"
        )


def check_kernel(given: Sequence[int] | None, kernel: Sequence[int], weights: str) -> None:
    """Refuses a window whose size differs from the weights.

    Args:
        given: the size that is given; None if there is none.
        kernel: that of the weights.
        weights: id of the weights.

    Raises:
        popart_exception: If they differ.
    """
    if given and list(given) != list(kernel):
        raise popart_exception(
            f"kernel_shape, {operands.shape_text(given)}, does not match inferred shape from "
            "weight input "
            f"'{weights}', {operands.shape_text(kernel)}"
        )


def check_pads(pads: Sequence[int], rank: int) -> None:
    """Refuses a padding without two values for each dimension.

    Args:
        pads: as in ONNX: all before, then all after.
        rank: number of dimensions.

    Raises:
        popart_exception: If there are others.
    """
    if len(pads) != 2 * rank:
        raise popart_exception(
            f"Padding vector (length {len(pads)}) does not have 2 values for each of {rank} "
            "dimensions."
        )
