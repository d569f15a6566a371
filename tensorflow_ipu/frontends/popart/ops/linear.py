"""Matrix products and convolutions, alone or several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import tensorflow as tf
from onnx import helper

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands, windows
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op
from tensorflow_ipu.ops.multi_conv import multi_conv

# Begins the attributes of a matrix product that is divided into parts.
SERIALIZED = "__serialize_matmul_"
# By mode: what the dimension is called, whether it is one of the first input, and which.
_SERIALIZED = {
    "input_channels": ("input channels", True, -2),
    "reducing_dim": ("reducing dimension", True, -1),
    "output_channels": ("output channels", False, -1),
}


@op("MatMul", 1, 9)
def _matmul(x: Any, y: Any, *, context: Any) -> Any:
    for tensor, side in ((x, "lhs"), (y, "rhs")):
        if tensor.shape.rank == 0:
            raise popart_exception(
                f"{operands.OP} doesn't support scalar tensor input as the {side} input"
            )
    if x.shape[-1] != y.shape[-2 if y.shape.rank > 1 else 0]:
        left, right = context.node.input
        raise popart_exception(
            f"{operands.OP} contracting dimensions unequal: lhs '{left}' "
            f"{operands.shape_text(x.shape)}, rhs "
            f"'{right}' {operands.shape_text(y.shape)}"
        )
    _check_serialization(x, y, context.node)
    left = x[tf.newaxis, :] if x.shape.rank == 1 else x
    right = y[:, tf.newaxis] if y.shape.rank == 1 else y
    product = tf.matmul(left, right)
    shape = product.shape.as_list()
    last = [shape[-1]] if y.shape.rank > 1 else []
    first = [shape[-2]] if x.shape.rank > 1 else []
    return tf.reshape(product, [*shape[:-2], *first, *last])


def _check_serialization(x: Any, y: Any, node: onnx.NodeProto) -> None:
    """Refuses to divide a dimension of a product into parts that are not equal."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    mode = given.get(f"{SERIALIZED}mode", b"").decode()
    if mode not in _SERIALIZED:
        return
    told, is_left, axis = _SERIALIZED[mode]
    size, factor = (x if is_left else y).shape.as_list()[axis], given[f"{SERIALIZED}factor"]
    if factor < 1 or size % factor:
        raise popart_exception(
            f"Invalid serialisation factor {factor} for {told} dim {size}. {mode} dim should be a "
            "multiple of the serialisation factor"
        )


def _gemm(a: Any, b: Any, c: Any, alpha: float, beta: float, transA: int, transB: int) -> Any:
    rows, columns = a.shape[0 if transA else 1], b.shape[1 if transB else 0]
    if rows != columns:
        raise popart_exception(
            f"Gemm: contracting dimensions unequal: shapes {a.shape.as_list()} and "
            f"{b.shape.as_list()}."
        )
    product = tf.matmul(a, b, transpose_a=bool(transA), transpose_b=bool(transB))
    product = product if alpha == 1 else product * tf.cast(alpha, a.dtype)
    if c is None:
        return product
    c = c if beta == 1 else c * tf.cast(beta, a.dtype)
    # One row is a vector: TensorFlow's graph optimizer fuses the sum, and then refuses a row.
    row = c.shape.rank == 2 and c.shape[0] == 1 and c.shape[1] == product.shape[1]
    return product + (tf.reshape(c, [-1]) if row else c)


@op("Gemm", 1, 6)
def _gemm_6(
    a: Any,
    b: Any,
    c: Any,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    return _gemm(a, b, c, alpha, beta, transA, transB)


@op("Gemm", 7, 9, 11)
def _gemm_7(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    return _gemm(a, b, c, alpha, beta, transA, transB)


@op("Conv", 1, 11)
def _conv(
    x: Any,
    weights: Any,
    bias: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
    context: Any,
) -> Any:
    kernel = weights.shape.as_list()[2:]
    windows.check_kernel(kernel_shape, kernel, context.node.input[1])
    windows.check("Conv", x.shape.as_list()[2:], kernel, strides, pads, dilations)
    if x.shape[1] != weights.shape[1] * group:
        raise popart_exception(
            f"Conv: the number of input channels, {x.shape[1]}, must be {weights.shape[1]} (those "
            f"of the weights) times {group} (the groups)."
        )
    ones = [1] * len(kernel)
    strides, dilations = list(strides or ones), list(dilations or ones)
    widths = windows.pads_of(pads, auto_pad, x.shape.as_list()[2:], kernel, strides, dilations)
    return convolution(x, weights, widths, strides, dilations, bias)


def convolution(
    x: Any, weights: Any, widths: Any, strides: Any, dilations: Any, bias: Any = None
) -> Any:
    """Returns a convolution of ONNX's layout; TensorFlow's CPU kernels have channels last.

    Args:
        x: data [batch, channels, ...].
        weights: [channels of the result, channels of a group, ...].
        widths: padding before and after each spatial dimension.
        strides: of the window.
        dilations: of the window.
        bias: [channels of the result]; None for zeros.
    """
    rank = len(strides)
    inner = list(range(2, rank + 2))
    if rank == 1:  # as images of one row
        image = convolution(
            tf.expand_dims(x, 2),
            tf.expand_dims(weights, 2),
            [(0, 0), *widths],
            [1, *strides],
            [1, *dilations],
            bias,
        )
        return tf.squeeze(image, 2)
    data = windows.channels_last(x)
    sizes, reach = data.shape.as_list()[1:-1], weights.shape.as_list()[2:]
    padding = windows.padding_of(widths, sizes, reach, strides, dilations)
    if padding == "VALID" and any(map(any, widths)):
        data = tf.pad(data, [(0, 0), *widths, (0, 0)])
    kernel = tf.transpose(weights, [*inner, 1, 0])
    if max(strides) > 1 and max(dilations) > 1:  # TensorFlow's convolutions do not combine them
        kernel, dilations = kernels.dilated(kernel, dilations), [1] * rank
    groups = x.shape[1] // weights.shape[1]
    # TensorFlow has groups of images only.
    parts = groups if rank > 2 else 1
    if parts == 1:
        result = tf.nn.convolution(data, kernel, strides, padding, dilations=dilations)
    else:
        result = tf.concat(
            [
                tf.nn.convolution(part, own, strides, padding, dilations=dilations)
                for part, own in zip(tf.split(data, parts, -1), tf.split(kernel, parts, -1))
            ],
            -1,
        )
    return windows.channels_second(result if bias is None else result + bias)


@op("ConvTranspose", 1, 11)
def _conv_transpose(
    x: Any,
    weights: Any,
    bias: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    output_padding: Any = None,
    output_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    rank = x.shape.rank - 2
    if dilations and any(number != 1 for number in dilations):
        raise popart_exception(
            f"ConvTranspose does not support dilations other than 1. Received: {list(dilations)}"
        )
    if output_shape and auto_pad == "VALID":
        raise popart_exception("ConvTranspose does not support output_shape with auto_pad=VALID.")
    strides = list(strides or [1] * rank)
    kernel = weights.shape.as_list()[2:]
    extra = list(output_padding or [0] * rank)
    sizes = x.shape.as_list()[2:]
    whole = [(n - 1) * s + k + e for n, s, k, e in zip(sizes, strides, kernel, extra)]
    if output_shape:
        whole = [max(size, n) for size, n in zip(whole, list(output_shape)[-rank:])]
    widths = _transposed_pads(pads, auto_pad, whole, output_shape, sizes, strides)
    parts = zip(tf.split(x, group, 1), tf.split(weights, group, 0))
    result = tf.concat([_transposed(d, w, whole, strides) for d, w in parts], 1)
    cut = tuple(slice(low, size - high) for (low, high), size in zip(widths, whole))
    result = result[(slice(None), slice(None), *cut)]
    return result if bias is None else result + tf.reshape(bias, [-1, *[1] * rank])


def _transposed_pads(
    pads: Any, auto_pad: str, whole: Any, output_shape: Any, sizes: Any, strides: Any
) -> list[tuple[int, int]]:
    """Returns the elements to crop before and after each dimension of the result."""
    rank = len(whole)
    begins_low = auto_pad == "SAME_UPPER"
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [size * stride for size, stride in zip(sizes, strides)]
    elif output_shape is not None:  # with it, the odd element is at the other end
        begins_low = not begins_low
    if output_shape is None:
        given = list(pads or [0] * (2 * rank))
        return list(zip(given[:rank], given[rank:]))
    totals = [size - wanted for size, wanted in zip(whole, list(output_shape)[-rank:])]
    halves = [(total // 2, total - total // 2) for total in totals]
    return halves if begins_low else [(high, low) for low, high in halves]


def _transposed(x: Any, weights: Any, whole: Any, strides: Any) -> Any:
    """Returns a transposed convolution without padding, in ONNX's layout."""
    rank = len(strides)
    if rank == 1:
        image = _transposed(
            tf.expand_dims(x, 2), tf.expand_dims(weights, 2), [1, *whole], [1, *strides]
        )
        return tf.squeeze(image, 2)
    inner = list(range(2, rank + 2))
    data = tf.transpose(x, [0, *inner, 1])
    kernel = tf.transpose(weights, [*inner, 1, 0])
    shape = [x.shape[0], *whole, weights.shape[1]]
    result = tf.nn.conv_transpose(data, kernel, shape, strides, "VALID")
    return tf.transpose(result, [0, rank + 1, *range(1, rank + 1)])


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
    """Splits one list of values by convolution."""
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
    result = convolution(x, weights, widths, strides, dilations)
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
