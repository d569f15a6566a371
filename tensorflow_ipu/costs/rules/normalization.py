"""Costs of normalization, softmax and losses that contain softmax."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import per_worker, phase, share, supervised, type_name
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.elementwise import expression_cycles
from tensorflow_ipu.costs.rules.reduction import reduction

# --- Normalization ---

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
    """Prices the deviation of each group from its sums, in float32."""
    on_tile = share(groups, 4, resources.tiles)
    cycles = expression_cycles(_STATISTICS, on_tile, "float32", resources.chip)
    return phase(cycles, "NormStatistics_float", resources.chip)


def _elements(
    source: TensorType, groups: int, resources: Resources, names: tuple[str, ...]
) -> Cost:
    """Prices the work on each element; the tile receives 4 values of each of its groups."""
    on_tile = share(source.elements, source.element_size, resources.tiles)
    received = 4 * min(groups, on_tile) * source.element_size
    cycles = expression_cycles(names, on_tile, source.dtype, resources.chip)
    codelet = f"Norm{'Gradient' if names is _GRADIENT else ''}_{type_name(source.dtype)}"
    return phase(cycles, codelet, resources.chip, received=received, temporary=received, operands=6)


def _forward(spec: OpSpec, resources: Resources) -> Cost:
    """Prices FusedBatchNorm; its second input is the scale of each channel."""
    source, scale = spec.input(0), spec.input(1)
    training = bool(spec.attributes.get("is_training", True))
    return normalization(source, scale.elements, False, resources, moments=training)


def _backward(spec: OpSpec, resources: Resources) -> Cost:
    """Prices FusedBatchNormGrad: gradient, input and scale come first."""
    source, scale = spec.input(1), spec.input(2)
    return normalization(source, scale.elements, False, resources, gradient=True)


def _local_response(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a local response normalization: roughly a norm with groups of one. Assumed."""
    source = spec.input(0)
    cost = _elements(source, 1, resources, (*_GRADIENT, "power"))
    return cost + Cost(label=Label.ASSUMED)


# --- Softmax ---

# Loss transform: cycles of a worker for each element. Source: `popnn` of graphcore/poplibs.
_LOSS_CYCLES = 9

# The binary vertex's cycles of a worker besides its elements, as no others are given.
_LOSS_OVERHEAD = 26


def softmax(source: TensorType, resources: Resources, log: bool = False) -> Cost:
    """Returns the cost of a softmax over the last dimension.

    Formula: largest of each row; subtract it and take the exponential; sum of each row; divide by
    it. Of its logarithm: the same, with a subtraction of the sum's logarithm. Source: how `popnn`
    of graphcore/poplibs builds it.

    Args:
        source: the logits.
        resources: what it has at its disposal.
        log: whether the logarithm is wanted.
    """
    rows = source.elements // max(source.shape[-1] if source.shape else 1, 1)
    shifted = _by_row(("subtract", "exp"), source, rows, resources)
    last = ("log", "subtract", "subtract") if log else ("divide",)
    return (
        reduction("Max", source, rows, True, resources)
        + shifted
        + reduction("Sum", source, rows, True, resources)
        + _by_row(last, source, rows, resources)
    )


def _by_row(names: tuple[str, ...], source: TensorType, rows: int, resources: Resources) -> Cost:
    """Prices functions of each element and a value of its row, which the tile receives."""
    on_tile = share(source.elements, source.element_size, resources.tiles)
    received = min(-(-rows // resources.tiles) + 1, on_tile) * source.element_size
    cycles = expression_cycles(names, on_tile, source.dtype, resources.chip)
    codelet = f"{'_'.join(names)}_{type_name(source.dtype)}"
    return phase(cycles, codelet, resources.chip, received=received, temporary=received)


def loss_cycles(elements: int, chip: Chip) -> float:
    """Returns the tile's cycles of a loss transform: 9 for each element of a worker."""
    return supervised(_LOSS_OVERHEAD + _LOSS_CYCLES * per_worker(elements, chip), chip)


def cross_entropy(source: TensorType, resources: Resources) -> Cost:
    """Returns the cost of a softmax cross entropy with its gradient.

    Formula: a softmax, a loss transform, and a sum of each row. Source: how `popnn` does it.

    Args:
        source: the logits, whose last dimension are the classes.
        resources: what it has at its disposal.
    """
    on_tile = share(source.elements, source.element_size, resources.tiles)
    codelet = f"LossTransform_{type_name(source.dtype)}"
    cycles = loss_cycles(on_tile, resources.chip)
    transform = phase(
        cycles,
        codelet,
        resources.chip,
        temporary=on_tile * source.element_size,
        operands=4,
    )
    rows = source.elements // max(source.shape[-1] if source.shape else 1, 1)
    return softmax(source, resources) + transform + reduction("Sum", source, rows, True, resources)


RULES: dict[str, Rule] = {
    **rules(_forward, "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", "is_training"),
    **rules(_backward, "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"),
    **rules(_local_response, "LRN LRNGrad"),
    **rules(lambda spec, resources: softmax(spec.input(0), resources), "Softmax"),
    **rules(lambda spec, resources: softmax(spec.input(0), resources, log=True), "LogSoftmax"),
    **rules(
        lambda spec, resources: cross_entropy(spec.input(0), resources),
        "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
    ),
}
