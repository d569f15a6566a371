"""Cost of convolutions and of their gradients."""

from __future__ import annotations

import functools
import math

from tensorflow_ipu.costs.contractions import partition, vector_unit
from tensorflow_ipu.costs.contractions.contraction import Product, arithmetic
from tensorflow_ipu.costs.contractions.conv_geometry import OPS, Geometry, geometry, windows
from tensorflow_ipu.costs.cost import FREE, Cost, OpSpec, Resources

#: Op types that `convolution` knows.
TYPES = tuple(OPS)

# So many groups may be computed as one, with zeros in the filter, to fill the matrix unit.
_COMBINED = (2, 4, 8, 16)


def convolution(spec: OpSpec, resources: Resources) -> Cost:
    """Returns the cost of a convolution or of one of its gradients.

    Groups whose channels do not fill the matrix unit may be combined, or take vector arithmetic,
    whichever is cheapest. See `partition.best`.

    Args:
        spec: Conv2D, Conv3D, DepthwiseConv2dNative, or one of their Backprop ops.
        resources: what the op has at its disposal.

    Raises:
        UnknownCostError: the op is none of these, or its shapes or attributes do not fit together.
    """
    return cost(geometry(spec), resources)


@functools.lru_cache(maxsize=8192)
def cost(shape: Geometry, resources: Resources) -> Cost:
    """Returns the cost of a convolution by its geometry."""
    if not shape.macs:
        return FREE
    types = arithmetic(shape.dtype, resources.partials, resources.chip)
    if types is None:
        outputs, length = _sums(shape)
        return vector_unit.multiply(outputs, length, shape.dtype, resources)
    factors = [1]
    if shape.groups > 1:
        channels = max(shape.inputs, shape.outputs)
        factors += [factor for factor in _COMBINED if channels * factor <= _COMBINED[-1]]
    ways = [product(_combined(shape, factor), *types) for factor in factors]
    costs = [partition.best(way, resources) for way in ways]
    if shape.inputs == 1:
        costs.append(vector_unit.depthwise(shape, types, resources))
    return partition.cheapest(costs)


def product(shape: Geometry, dtype: str, partials: str) -> Product:
    """Returns a convolution as the product that the tiles compute.

    * Forward: for each kernel position, field x input channels times the filter.
    * Gradient of the input: the same with the channels in each other's place. As many field
      positions as the gradient of the result has, each for all kernel positions; the filter is
      transposed first.
    * Gradient of the filter: (kernel positions x input channels) x output channels, added up over
      the batch and the field, which becomes the innermost dimension of both operands first.

    Args:
        shape: the convolution.
        dtype: type of the operands.
        partials: type of the sums.
    """
    forward = Product(
        dtype,
        partials,
        shape.positions,
        shape.inputs,
        shape.outputs,
        shape.groups,
        windows(shape),
        shape.rows,
        shape.stored,
    )
    if shape.kind == "forward":
        return forward
    if shape.kind == "input":
        return forward._replace(
            inputs=shape.outputs,
            outputs=shape.inputs,
            stored=shape.positions,
            rearranged=shape.taps * shape.groups * shape.inputs * shape.outputs,
            spread=math.prod(shape.strides),
        )
    return forward._replace(
        positions=shape.taps * shape.inputs,
        inputs=shape.positions,
        rows=1,
        gathered=shape.inputs,
        rearranged=shape.groups * (shape.stored * shape.inputs + shape.positions * shape.outputs),
    )


def _combined(shape: Geometry, factor: int) -> Geometry:
    """The same with some groups computed as one."""
    return shape._replace(
        groups=-(-shape.groups // factor),
        inputs=shape.inputs * factor,
        outputs=shape.outputs * factor,
    )


def _sums(shape: Geometry) -> tuple[int, int]:
    """Number of sums, and products of each."""
    if shape.kind == "filter":
        return shape.macs // shape.positions, shape.positions
    length = shape.taps * (shape.outputs if shape.kind == "input" else shape.inputs)
    return shape.macs // length, length
