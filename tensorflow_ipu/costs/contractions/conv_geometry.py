"""Geometry of a convolution, read from its op: field, kernel, channels, groups."""

from __future__ import annotations

import math
from typing import NamedTuple

from tensorflow_ipu.costs.contractions.contraction import Window
from tensorflow_ipu.costs.cost import OpSpec, TensorType, UnknownCostError


class _Roles(NamedTuple):
    """Positions of an op's operands.

    Args:
        spatial: number of spatial dimensions.
        kind: `forward`, `input` or `filter`, of which the result is the gradient.
        depthwise: whether each input channel has filters of its own.
    """

    spatial: int
    kind: str
    depthwise: bool = False


OPS = {
    "Conv2D": _Roles(2, "forward"),
    "Conv2DBackpropInput": _Roles(2, "input"),
    "Conv2DBackpropFilter": _Roles(2, "filter"),
    "Conv3D": _Roles(3, "forward"),
    "Conv3DBackpropInput": _Roles(3, "input"),
    "Conv3DBackpropInputV2": _Roles(3, "input"),
    "Conv3DBackpropFilter": _Roles(3, "filter"),
    "Conv3DBackpropFilterV2": _Roles(3, "filter"),
    "DepthwiseConv2dNative": _Roles(2, "forward", True),
    "DepthwiseConv2dNativeBackpropInput": _Roles(2, "input", True),
    "DepthwiseConv2dNativeBackpropFilter": _Roles(2, "filter", True),
}


class Geometry(NamedTuple):
    """A convolution, forward or one of its gradients.

    Args:
        kind: `forward`, `input` or `filter`.
        dtype: element type.
        batch: images.
        image: spatial dimensions of the input of the forward convolution.
        field: those of its result.
        kernel: those of the filter.
        strides: by spatial dimension.
        dilations: the same.
        groups: independent convolutions.
        inputs: input channels of a group.
        outputs: output channels of a group.
    """

    kind: str
    dtype: str
    batch: int
    image: tuple[int, ...]
    field: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    inputs: int
    outputs: int

    @property
    def positions(self) -> int:
        """Field positions of the whole batch."""
        return self.batch * math.prod(self.field)

    @property
    def rows(self) -> int:
        """Rows of the field, of the whole batch."""
        return self.batch * math.prod(self.field[:-1])

    @property
    def stored(self) -> int:
        """Positions of the forward input of the whole batch."""
        return self.batch * math.prod(self.image)

    @property
    def taps(self) -> int:
        """Kernel positions."""
        return math.prod(self.kernel)

    @property
    def macs(self) -> int:
        """Multiply-adds, those with padding included."""
        return self.positions * self.taps * self.groups * self.inputs * self.outputs


def geometry(spec: OpSpec) -> Geometry:
    """Reads a convolution from its op. Padding shows in the shapes of inputs and result.

    Args:
        spec: a convolution or a gradient of one.

    Raises:
        UnknownCostError: the op is no convolution, or its shapes or attributes do not fit together.
    """
    if spec.type not in OPS:
        raise UnknownCostError(f"Expected one of {', '.join(OPS)}; received '{spec.type}'.")
    roles = OPS[spec.type]
    image, filters, result = _operands(spec, roles)
    rank = roles.spatial + 2
    for role, tensor in (("input", image), ("filter", filters), ("result", result)):
        if len(tensor.shape) != rank:
            raise UnknownCostError(
                f"{spec.type}: expected an {role} of {rank} dimensions; received {tensor.shape}."
            )
    first = _channels_first(spec)
    channels, outputs = _channels(image, first), _channels(result, first)
    groups, inputs, each = _groups(spec, roles, channels, outputs, filters.shape)
    return Geometry(
        roles.kind,
        result.dtype,
        image.shape[0],
        _spatial(image.shape, first),
        _spatial(result.shape, first),
        filters.shape[: roles.spatial],
        _spatial(_list(spec, "strides", rank), first),
        _spatial(_list(spec, "dilations", rank), first),
        groups,
        inputs,
        each,
    )


def windows(shape: Geometry) -> tuple[Window, ...]:
    """Returns the spatial dimensions of a convolution, seen from the result that is computed.

    A block of the input's gradient needs (size - 1) * dilation / stride positions more.
    """
    sizes = zip(shape.strides, shape.kernel, shape.dilations)
    if shape.kind == "input":
        return tuple(Window(1, size, dilation / stride) for stride, size, dilation in sizes)
    return tuple(Window(*size) for size in sizes)


def _operands(spec: OpSpec, roles: _Roles) -> tuple[TensorType, TensorType, TensorType]:
    """Returns input, filter and result of the forward convolution, or their gradients."""
    wanted = 2 if roles.kind == "forward" else 3
    if len(spec.inputs) < wanted or not spec.outputs:
        raise UnknownCostError(
            f"{spec.type}: expected {wanted} inputs and a result; received {len(spec.inputs)} "
            f"inputs and {len(spec.outputs)} results."
        )
    inputs, output = spec.inputs, spec.outputs[0]
    if roles.kind == "forward":
        return inputs[0], inputs[1], output
    if roles.kind == "input":
        return output, inputs[1], inputs[2]
    return inputs[0], output, inputs[2]


def _groups(
    spec: OpSpec, roles: _Roles, channels: int, outputs: int, filters: tuple[int, ...]
) -> tuple[int, int, int]:
    """Returns the groups, and input and output channels of each."""
    inputs, each = filters[-2:]
    if roles.depthwise:
        if (inputs, inputs * each) != (channels, outputs):
            raise UnknownCostError(
                f"{spec.type}: expected a filter of {channels} channels that makes {outputs}; "
                f"received {filters}."
            )
        return channels, 1, each
    if min(channels, inputs) and (channels % inputs or each % (channels // inputs)):
        raise UnknownCostError(
            f"{spec.type}: expected input channels to be a multiple of the filter's, and output "
            f"channels a multiple of that factor; received {channels} channels and {filters}."
        )
    if each != outputs:
        raise UnknownCostError(f"{spec.type}: expected {each} output channels; received {outputs}.")
    groups = channels // max(inputs, 1)
    return groups, inputs, each // max(groups, 1)


def _channels_first(spec: OpSpec) -> bool:
    """Returns whether the channels come before the spatial dimensions."""
    layout = spec.attributes.get("data_format", "NHWC")
    layout = layout.decode() if isinstance(layout, bytes) else str(layout)
    if layout not in ("NHWC", "NCHW", "NDHWC", "NCDHW", ""):
        raise UnknownCostError(
            f"{spec.type}: expected data_format NHWC, NCHW, NDHWC or NCDHW; received '{layout}'."
        )
    return layout.startswith("NC")


def _channels(tensor: TensorType, first: bool) -> int:
    """Returns the channels of a tensor."""
    return tensor.shape[1] if first else tensor.shape[-1]


def _spatial(values: tuple[int, ...], first: bool) -> tuple[int, ...]:
    """Returns the values of the spatial dimensions."""
    return tuple(values[2:] if first else values[1:-1])


def _list(spec: OpSpec, name: str, rank: int) -> tuple[int, ...]:
    """Returns an attribute with a value for each dimension; ones if it is missing."""
    value = spec.integers(name) or (1,) * rank
    if len(value) != rank:
        raise UnknownCostError(f"{spec.type}: expected {rank} {name}; received {list(value)}.")
    return value
