"""Costs of products and convolutions of 8-bit floats, with sums in float16."""

from __future__ import annotations

from tensorflow_ipu.costs.contractions import convolution
from tensorflow_ipu.costs.contractions.conv_geometry import Geometry
from tensorflow_ipu.costs.contractions.matmul import product
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, Rule, TensorType, UnknownCostError
from tensorflow_ipu.util import op_names

FLOAT8 = "float8"


def _matmul(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a product of matrices of 8-bit floats; the scale goes into the sums."""
    operands = tuple(TensorType(FLOAT8, tensor.shape) for tensor in spec.inputs[:2])
    return product(spec._replace(inputs=operands), resources)


def _convolution(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a convolution of 8-bit floats, or its transpose: the gradient of its input.

    Attributes say the geometry. Channels come first in both operands, unless `channels_last` says
    that they are last in images, and `filters_last` that they are last in filters.
    """
    image, filters, result = spec.input(0), spec.input(1), spec.output()
    rank = len(image.shape)
    strides, dilations = spec.integers("strides"), spec.integers("dilations")
    groups = spec.integer("groups", 1)
    if rank < 3 or len(filters.shape) != rank or len(result.shape) != rank or not groups:
        raise UnknownCostError(f"Expected a convolution; received the shapes {spec.inputs}.")
    if spec.attributes.get("channels_last"):
        image, result = (_channels_first(tensor) for tensor in (image, result))
    kernel = filters.shape[:-2] if spec.attributes.get("filters_last") else filters.shape[2:]
    if spec.attributes.get("transposed"):
        kind, image, result = "input", result, image
    else:
        kind = "forward"
    return convolution.cost(
        Geometry(
            kind,
            FLOAT8,
            image.shape[0],
            image.shape[2:],
            result.shape[2:],
            kernel,
            strides or (1,) * (rank - 2),
            dilations or (1,) * (rank - 2),
            groups,
            image.shape[1] // groups,
            result.shape[1] // groups,
        ),
        resources,
    )


def _channels_first(tensor: TensorType) -> TensorType:
    """Returns the type of a channels-last tensor with the channels after the batch."""
    batch, *field, channels = tensor.shape
    return TensorType(tensor.dtype, (batch, channels, *field))


RULES = {
    op_names.FLOAT8_MATMUL: Rule(_matmul),
    op_names.FLOAT8_CONVOLUTION: Rule(
        _convolution,
        ("strides", "dilations", "groups", "transposed", "channels_last", "filters_last"),
    ),
}
