"""Cost of convolutions and of their gradients."""

from __future__ import annotations

import functools
import math

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.contractions import contraction, partition, vector_unit
from tensorflow_ipu.costs.contractions.contraction import Product, arithmetic, block_of, candidates
from tensorflow_ipu.costs.contractions.conv_geometry import OPS, Geometry, geometry, windows
from tensorflow_ipu.costs.cost import FREE, Cost, OpSpec, Resources, UnknownCostError
from tensorflow_ipu.costs.releases import CURRENT

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
    if shape.groups > 1 and resources.release.fills_unit:
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


def _inside(image: int, field: int, kernel: int, stride: int) -> float:
    """Returns the share of kernel positions inside the image, along one dimension."""
    before = max((field - 1) * stride + kernel - image, 0) // 2
    starts = [position * stride - before for position in range(field)]
    taps = sum(min(start + kernel, image) - max(start, 0) for start in starts)
    return taps / (field * kernel)


def _combined(shape: Geometry, factor: int) -> Geometry:
    """Returns the product with some groups computed as one."""
    return shape._replace(
        groups=-(-shape.groups // factor),
        inputs=shape.inputs * factor,
        outputs=shape.outputs * factor,
    )


def _sums(shape: Geometry) -> tuple[int, int]:
    """Returns the number of sums, and of products of each."""
    if shape.kind == "filter":
        return shape.macs // shape.positions, shape.positions
    length = shape.taps * (shape.outputs if shape.kind == "input" else shape.inputs)
    return shape.macs // length, length


def vertex_cycles(spec: OpSpec, chip: Chip) -> float:
    """Returns the cycles of the vertex alone if a convolution is on one tile.

    Its sums stay in float32. A convolution of one kernel position has sums of its operands' type.
    Kernel positions outside the image are skipped, which a field over many tiles cannot gain by.

    Args:
        spec: a convolution.
        chip: the chip.

    Raises:
        UnknownCostError: the op is no convolution, or the matrix unit lacks its type.
    """
    shape = geometry(spec)
    types = arithmetic(shape.dtype, "float16" if shape.taps == 1 else "float32", chip)
    if types is None:
        raise UnknownCostError(f"The matrix unit of {chip.title} has no {shape.dtype}.")
    whole = product(shape, *types)
    unit, splits = amp.unit(chip, *types), candidates(1)
    block = block_of(whole, unit, splits)
    inside = math.prod(map(_inside, shape.image, shape.field, shape.kernel, shape.strides))
    block = block._replace(positions=np.ceil(block.positions * inside).astype(int))
    if whole.kernel == 1:
        cycles = contraction.vertex_cycles(whole, unit, splits, block, CURRENT)
    else:
        cycles = contraction.with_kernel(whole, unit, splits, block, CURRENT)
    return float(np.min(cycles)) + chip.compute_set_cycles
