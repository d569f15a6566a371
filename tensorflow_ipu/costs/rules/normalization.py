"""Costs of batch, layer and group normalization: moments, then whitening."""

from __future__ import annotations

from tensorflow_ipu.costs.chip.vertex import phase, share, type_name
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rule import Rule, rules
from tensorflow_ipu.costs.rules.elementwise import expression_cycles
from tensorflow_ipu.costs.rules.reduction import reduction

# No formula of the library for whole norms is known: they are put together from its parts.
_WHITENING = ("subtract", "multiply", "multiply", "add")
_GRADIENT = ("subtract", "multiply", "multiply", "subtract", "subtract", "multiply")
_STATISTICS = ("multiply", "subtract", "add", "rsqrt")


def normalization(
    source: TensorType,
    groups: int,
    trailing: bool,
    resources: Resources,
    moments: bool = True,
    gradient: bool = False,
) -> Cost:
    """Returns the cost of a normalization or of its gradient.

    Formula: two reductions to the groups (mean and mean of squares; of the gradient: its sum, and
    that of its product with the whitened input), a few operations on each group, and 4 operations
    on each element (6 in the gradient), for which tiles receive the values of the groups.

    Args:
        source: what is normalized.
        groups: groups that have a mean each: channels of a batch norm, rows of a layer norm.
        trailing: whether a group's elements are in the last dimensions, as in layer norms.
        resources: what it has at its disposal.
        moments: whether moments are computed; not so in inference with a batch norm.
        gradient: whether this is the gradient.
    """
    cost = _elements(source, groups, resources, _GRADIENT if gradient else _WHITENING)
    if gradient or moments:
        sums = reduction("Sum", source, groups, trailing, resources)
        squares = reduction("SquareSum", source, groups, trailing, resources)
        cost = sums + squares + _groups(groups, resources) + cost
    return cost


def _groups(groups: int, resources: Resources) -> Cost:
    """From the sums of each group to its deviation, in float32."""
    on_tile = share(groups, 4, resources.tiles)
    cycles = expression_cycles(_STATISTICS, on_tile, "float32", resources.chip)
    return phase(cycles, "NormStatistics_float", resources.chip)


def _elements(
    source: TensorType, groups: int, resources: Resources, names: tuple[str, ...]
) -> Cost:
    """Returns the elementwise cost of a norm; a tile receives 4 values for each of its groups."""
    on_tile = share(source.elements, source.element_size, resources.tiles)
    received = 4 * min(groups, on_tile) * source.element_size
    cycles = expression_cycles(names, on_tile, source.dtype, resources.chip)
    codelet = f"Norm{'Gradient' if names is _GRADIENT else ''}_{type_name(source.dtype)}"
    return phase(cycles, codelet, resources.chip, received=received, temporary=received, operands=6)


def _forward(spec: OpSpec, resources: Resources) -> Cost:
    """FusedBatchNorm; its second input is the scale of each channel."""
    source, scale = spec.input(0), spec.input(1)
    training = bool(spec.attributes.get("is_training", True))
    return normalization(source, scale.elements, False, resources, moments=training)


def _backward(spec: OpSpec, resources: Resources) -> Cost:
    """FusedBatchNormGrad: gradient, input and scale come first."""
    source, scale = spec.input(1), spec.input(2)
    return normalization(source, scale.elements, False, resources, gradient=True)


def _local_response(spec: OpSpec, resources: Resources) -> Cost:
    """Local response normalization: a norm with each element as its own group, roughly. Assumed."""
    source = spec.input(0)
    cost = _elements(source, 1, resources, (*_GRADIENT, "power"))
    return cost + Cost(label=Label.ASSUMED)


RULES: dict[str, Rule] = {
    **rules(_forward, "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", "is_training"),
    **rules(_backward, "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"),
    **rules(_local_response, "LRN LRNGrad"),
}
