"""Costs of softmax and of losses that contain it."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import per_worker, phase, share, supervised, type_name
from tensorflow_ipu.costs.cost import Cost, Resources, TensorType
from tensorflow_ipu.costs.rule import Rule, rules
from tensorflow_ipu.costs.rules.elementwise import expression_cycles
from tensorflow_ipu.costs.rules.reduction import reduction

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
    """Something done with each element and a value of its row, which the tile receives."""
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
    **rules(lambda spec, resources: softmax(spec.input(0), resources), "Softmax"),
    **rules(lambda spec, resources: softmax(spec.input(0), resources, log=True), "LogSoftmax"),
    **rules(
        lambda spec, resources: cross_entropy(spec.input(0), resources),
        "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
    ),
}
