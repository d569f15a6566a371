"""Costs of ops on sequences: sorting, top-k, running sums, the loss and the search of CTC."""

from __future__ import annotations

from tensorflow_ipu.costs.chip.vertex import phase, share, type_name
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.elementwise import (
    computed_type,
    expression_cycles,
    expression_label,
    vertex_cycles,
)

# One exchange of a sorting network: which is larger, and both the keys and their places follow.
_COMPARE_EXCHANGE = ("compare", "select", "select")

# Bytes of an element's place.
_INDEX_BYTES = 4


def _doublings(length: int) -> int:
    """Returns the number of doublings from a length of 1 to some length."""
    return max(length - 1, 0).bit_length()


def sorting(
    source: TensorType, resources: Resources, length: int | None = None, kept: int | None = None
) -> Cost:
    """Returns the cost of sorting lines with the places of their elements, or their largest k.

    Formula: a bitonic network of `s (s + 1) / 2` steps, s = log2 of the line's length; for the
    largest k only runs of k are sorted, then halved: `t (t + 1) / 2 + (s - t) (t + 1)` steps, t =
    log2 of k. In each step a tile receives what it has once more, compares and selects.

    Args:
        source: the lines; their length is the last dimension unless given.
        resources: what it has at its disposal.
        length: length of a line.
        kept: how many of each line are wanted; None for all.
    """
    lines = source.shape[-1] if source.shape else 1
    whole = _doublings(lines if length is None else length)
    runs = whole if kept is None else min(_doublings(kept), whole)
    steps = runs * (runs + 1) // 2 + (whole - runs) * (runs + 1)
    on_tile = share(source.elements, source.element_size, resources.tiles)
    received = on_tile * (source.element_size + _INDEX_BYTES)
    cycles = expression_cycles(_COMPARE_EXCHANGE, on_tile, source.dtype, resources.chip)
    codelet = f"CompareExchange_{type_name(source.dtype)}"
    label = expression_label(_COMPARE_EXCHANGE)
    step = phase(cycles, codelet, resources.chip, received, received, label=label)
    return step.times(max(steps, 1))


def _largest(spec: OpSpec, resources: Resources) -> Cost:
    """Prices TopK: the last dimension of the result is k."""
    shape = spec.output().shape
    return sorting(spec.input(0), resources, kept=shape[-1] if shape else 1)


def _scan(spec: OpSpec, resources: Resources) -> Cost:
    """Prices running sums: `log2(length)` additions of the element 1, 2, 4 ... places before.

    Each step is an exchange and an addition. Assumed: the library's way is not known.
    """
    source = spec.input(0)
    axes = spec.integers("axes")
    # Without the axis, the longest dimension is the worst case.
    length = source.dimension(axes[0]) if axes else max(source.shape, default=1)
    name = "multiply" if spec.type == "Cumprod" else "add"
    on_tile = share(source.elements, source.element_size, resources.tiles)
    received = on_tile * source.element_size
    cycles = vertex_cycles(name, on_tile, source.dtype, resources.chip)
    codelet = f"{spec.type}_{type_name(source.dtype)}"
    step = phase(cycles, codelet, resources.chip, received, received, label=Label.ASSUMED)
    return step.times(max(_doublings(length), 1))


def _band(spec: OpSpec, resources: Resources) -> Cost:
    """Prices MatrixBandPart: each element is kept or set to zero by its place."""
    whole = computed_type(spec)
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    cycles = vertex_cycles("select", on_tile, whole.dtype, resources.chip)
    codelet = f"Band_{type_name(whole.dtype)}"
    return phase(cycles, codelet, resources.chip, label=Label.ASSUMED)


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
    **rules(lambda spec, resources: sorting(spec.input(0), resources), "XlaSort Sort"),
    **rules(_largest, "TopK TopKV2"),
    **rules(_scan, "Cumsum Cumprod CumulativeLogsumexp", "axes"),
    **rules(_band, "MatrixBandPart"),
    **rules(_loss, "IpuCtcLoss"),
    **rules(_beam_search, "IpuCtcBeamSearch", "beam_width"),
}
