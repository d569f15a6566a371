"""Costs of CTC: the loss and the beam search."""

from __future__ import annotations

from tensorflow_ipu.costs.chip.vertex import phase, share
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.elementwise import expression_cycles
from tensorflow_ipu.costs.rules.sorting import sorting

# For each step and position, forward and back: two sums of logarithms (largest, difference,
# exponential, logarithm, sum) and a product each way, then the gradient.
_SUM_OF_LOGARITHMS = ("maximum", "subtract", "exp", "log", "add")
_POSITION = _SUM_OF_LOGARITHMS * 2 + ("add",)
_GRADIENT = ("subtract", "exp", "add")
_ELEMENT_BYTES = 4


def loss(steps: int, batch: int, labels: int, classes: int, resources: Resources) -> Cost:
    """Returns the cost of a CTC loss with its gradient.

    Formula: for each step one phase forward and one back, with 11 functions on each of the
    `2 x labels + 1` positions, of which a tile receives its neighbors' two; then 3 functions on
    each logit. Source: the recurrence of Graves et al. (2006); no vertex cycles of the library's
    CTC are known.

    Args:
        steps: time steps.
        batch: samples.
        labels: most labels of a sample.
        classes: number of classes.
        resources: what it has at its disposal.
    """
    chip = resources.chip
    on_tile = share(batch * (2 * labels + 1), _ELEMENT_BYTES, resources.tiles)
    cycles = expression_cycles(_POSITION, on_tile, "float32", chip)
    received = 2 * _ELEMENT_BYTES * on_tile
    step = phase(cycles, "CtcStep_float", chip, received=received, label=Label.ASSUMED)
    logits = share(steps * batch * classes, _ELEMENT_BYTES, resources.tiles)
    last = expression_cycles(_GRADIENT, logits, "float32", chip)
    # Both tables of probabilities are kept until the gradient is there.
    kept = 2 * _ELEMENT_BYTES * share(steps * batch * (2 * labels + 1), 4, resources.tiles)
    gradient = phase(last, "CtcGradient_float", chip, temporary=kept, label=Label.ASSUMED)
    return step.times(2 * steps) + gradient


def beam_search(steps: int, batch: int, classes: int, width: int, resources: Resources) -> Cost:
    """Returns the cost of a CTC beam search.

    Formula: for each step a sum of logarithms for each beam and class, and the best `width` of
    them. No vertex cycles of the library's search are known.

    Args:
        steps: time steps.
        batch: samples.
        classes: number of classes.
        width: beams that are kept.
        resources: what it has at its disposal.
    """
    chip = resources.chip
    candidates = TensorType("float32", (batch, width * classes))
    on_tile = share(candidates.elements, _ELEMENT_BYTES, resources.tiles)
    cycles = expression_cycles(_SUM_OF_LOGARITHMS, on_tile, "float32", chip)
    received = _ELEMENT_BYTES * on_tile
    extend = phase(cycles, "CtcExtend_float", chip, received, received, label=Label.ASSUMED)
    return (extend + sorting(candidates, resources, kept=width)).times(steps)


def _loss(spec: OpSpec, resources: Resources) -> Cost:
    """Prices IpuCtcLoss: [steps, batch, classes] and [batch, labels]."""
    steps, batch, classes = spec.input(0).dimensions(3)
    return loss(steps, batch, spec.input(1).dimension(-1), classes, resources)


def _beam_search(spec: OpSpec, resources: Resources) -> Cost:
    """Prices IpuCtcBeamSearch: [steps, batch, classes]."""
    steps, batch, classes = spec.input(0).dimensions(3)
    width = spec.integer("beam_width", 1)
    return beam_search(steps, batch, classes, width, resources)


RULES: dict[str, Rule] = {
    **rules(_loss, "IpuCtcLoss"),
    **rules(_beam_search, "IpuCtcBeamSearch", "beam_width"),
}
