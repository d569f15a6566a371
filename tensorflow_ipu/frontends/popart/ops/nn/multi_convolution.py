"""Several convolutions at the same time: MultiConv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import linear, windows
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, op
from tensorflow_ipu.ops.multi_conv import multi_conv

# Attribute of the node -> option of the device.
_OPTIONS = {
    "__plan_type": "planType",
    "__per_conv_reserved_tiles": "perConvReservedTiles",
    "__cycle_back_off": "cycleBackOff",
}


@op("MultiConv", 1, domain=GRAPHCORE)
def _multi_conv(
    *inputs: Any,
    numConvs: int,
    numInputs: Any,
    dilations: Any = (),
    dilationsLengths: Any = (),
    inDilations: Any = (),
    inDilationsLengths: Any = (),
    pads: Any = (),
    padsLengths: Any = (),
    outPads: Any = (),
    outPadsLengths: Any = (),
    strides: Any = (),
    stridesLengths: Any = (),
    context: Any,
) -> Any:
    parameters = [
        _sets(name, values, counts, numConvs)
        for name, values, counts in (
            ("dilations", dilations, dilationsLengths),
            ("inDilations", inDilations, inDilationsLengths),
            ("pads", pads, padsLengths),
            ("outPads", outPads, outPadsLengths),
            ("strides", strides, stridesLengths),
        )
    ]
    options = {
        _OPTIONS[attribute.name]: _text(attribute)
        for attribute in context.node.attribute
        if attribute.name in _OPTIONS
    }

    def convolved(*tensors: Any) -> list[Any]:
        given = windows.parts(tensors, numInputs)
        return [_convolved(tensors, *one) for tensors, *one in zip(given, *parameters)]

    return list(multi_conv(convolved, options)(*inputs))


def _text(attribute: Any) -> str:
    """Returns the value of an attribute as the device's options have it."""
    if attribute.s:
        return str(attribute.s.decode())
    return str(attribute.i or attribute.f)


def _sets(name: str, values: Any, counts: Any, number: int) -> list[list[int]]:
    """Returns the values for each convolution, which are in one list."""
    if not counts:
        return [[] for _ in range(number)]
    if len(counts) != number:
        raise popart_exception(
            f"The number of {name} parameter sets ({len(counts)}) does not match the number of "
            f"input sets ({number})."
        )
    return windows.parts(values, counts)


def _convolved(
    tensors: Sequence[Any],
    dilations: list[int],
    in_dilations: list[int],
    pads: list[int],
    out_pads: list[int],
    strides: list[int],
) -> Any:
    """Returns one convolution of data, weights, and a bias if any."""
    x, weights, *bias = tensors
    x = _spread(x, in_dilations)
    sizes, kernel = x.shape.as_list()[2:], weights.shape.as_list()[2:]
    windows.check("MultiConv", sizes, kernel, strides, pads, dilations)
    if x.shape[1] % weights.shape[1]:
        raise popart_exception(
            f"MultiConv: the number of input channels, {x.shape[1]}, must be a multiple of those "
            f"of the weights, {weights.shape[1]}."
        )
    ones = [1] * len(kernel)
    strides, dilations = strides or ones, dilations or ones
    widths = windows.pads_of(pads, "NOTSET", sizes, kernel, strides, dilations)
    result = linear.convolution(x, weights, widths, strides, dilations)
    if out_pads:
        rank = len(kernel)
        result = tf.pad(result, [(0, 0), (0, 0), *zip(out_pads[:rank], out_pads[rank:])])
    return result + tf.reshape(bias[0], [-1, *ones]) if bias else result


def _spread(x: Any, dilations: list[int]) -> Any:
    """Returns data with zeros between its elements."""
    for axis, step in enumerate(dilations, 2):
        if step == 1:
            continue
        shape = x.shape.as_list()
        wide = tf.pad(tf.expand_dims(x, axis + 1), _before(axis + 1, len(shape) + 1, step - 1))
        shape[axis] *= step
        x = tf.reshape(wide, shape)
        x = x[(slice(None),) * axis + (slice(None, shape[axis] - step + 1),)]
    return x


def _before(axis: int, rank: int, count: int) -> list[tuple[int, int]]:
    return [(0, count if i == axis else 0) for i in range(rank)]
