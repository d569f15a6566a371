"""Windows of convolutions and pools: padding, strides and sizes of results."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands


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
    """Returns "SAME" where TensorFlow's padding of that name has these widths, else "VALID".

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
            f"kernel_shape, {operands.shape_text(given)}, does not match inferred shape from weight input "
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
