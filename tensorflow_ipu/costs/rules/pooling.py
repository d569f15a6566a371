"""Costs of pooling, its gradients, and resizing of images."""

from __future__ import annotations

import math

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import per_worker, phase, share, supervised, type_name
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, Rule, TensorType, largest, rules
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.elementwise import expression_cycles, vector_width

# Cycles of a worker for each vector of the window, forward and for the gradient of maximum pooling,
# and for each row. Source: `popnn` of graphcore/poplibs.
_FORWARD, _MAX_BACKWARD, _ROW = 3, 5, 30


def tile_cycles(
    elements: int, rows: int, window: int, per_vector: int, dtype: str, chip: Chip
) -> float:
    """Returns the cycles of a pooling vertex.

    Formula: `launch + workers x (vectors x window x 3 + 30 x rows)`; 5 instead of 3 in the gradient
    of maximum pooling.

    Args:
        elements: pooled elements on the tile.
        rows: rows of the pooled image that they are in.
        window: elements of the window.
        per_vector: cycles for a vector.
        dtype: element type.
        chip: the chip.
    """
    vectors = -(-per_worker(elements, chip) // vector_width(dtype, chip))
    return supervised(vectors * window * per_vector + _ROW * per_worker(rows, chip), chip)


def pooling(
    whole: TensorType,
    pooled: TensorType,
    window: int,
    resources: Resources,
    name: str,
    per_vector: int = _FORWARD,
    read: int = 1,
) -> Cost:
    """Returns the cost of pooling or its gradient.

    Args:
        whole: the image before pooling.
        pooled: the image after it.
        window: elements of the window.
        resources: what it has at its disposal.
        name: name of the vertex.
        per_vector: cycles for a vector.
        read: images of the size before pooling that are read.
    """
    on_tile = share(pooled.elements, pooled.element_size, resources.tiles)
    rows = math.ceil(math.prod(pooled.shape[:-2]) / resources.tiles)
    received = read * share(whole.elements, whole.element_size, resources.tiles)
    num_bytes = received * whole.element_size
    return phase(
        tile_cycles(on_tile, rows, window, per_vector, pooled.dtype, resources.chip),
        f"{name}_{type_name(pooled.dtype)}",
        resources.chip,
        received=num_bytes,
        temporary=num_bytes,
        operands=2 + read,
    )


def _window(spec: OpSpec) -> int:
    """Returns the elements of the window."""
    return math.prod(spec.integers("ksize") or (1,))


def _forward(spec: OpSpec, resources: Resources) -> Cost:
    """Prices AvgPool and MaxPool."""
    whole, pooled = spec.input(0), spec.output()
    return pooling(whole, pooled, _window(spec), resources, spec.type)


def _average_gradient(spec: OpSpec, resources: Resources) -> Cost:
    """Prices AvgPoolGrad: the second input is the gradient of the pooled image."""
    whole, pooled = spec.output(), spec.input(1)
    return pooling(whole, pooled, _window(spec), resources, spec.type)


def _max_gradient(spec: OpSpec, resources: Resources) -> Cost:
    """Prices MaxPoolGrad: the image is read again."""
    whole, pooled = spec.input(0), spec.input(1)
    window = _window(spec)
    return pooling(whole, pooled, window, resources, spec.type, _MAX_BACKWARD, read=2)


def _dilation(spec: OpSpec, resources: Resources) -> Cost:
    """Prices Dilation2D: as maximum pooling with the window of its filter. Assumed."""
    window = math.prod(spec.input(1).shape[:2])
    cost = pooling(spec.input(0), spec.output(), window, resources, spec.type)
    return cost + Cost(label=Label.ASSUMED)


def _resize(spec: OpSpec, resources: Resources) -> Cost:
    """Prices resizing of images: four products and sums per element of the larger one. Assumed."""
    whole = largest((*spec.inputs, *spec.outputs))
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    cycles = expression_cycles(("multiply", "add") * 4, on_tile, whole.dtype, resources.chip)
    received = on_tile * whole.element_size
    return phase(cycles, spec.type, resources.chip, received, received, label=Label.ASSUMED)


RULES: dict[str, Rule] = {
    **rules(_forward, "AvgPool MaxPool AvgPool3D MaxPool3D MaxPoolWithArgmax MaxPoolV2", "ksize"),
    **rules(_dilation, "Dilation2D"),
    **rules(_average_gradient, "AvgPoolGrad AvgPool3DGrad", "ksize"),
    **rules(_max_gradient, "MaxPoolGrad MaxPool3DGrad MaxPoolGradV2", "ksize"),
    **rules(_max_gradient, "MaxPoolGradGrad MaxPool3DGradGrad MaxPoolGradWithArgmax", "ksize"),
    **rules(
        _resize,
        """
        ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad
        ResizeBicubic ResizeBicubicGrad CropAndResize CropAndResizeGradImage
        """,
    ),
}
