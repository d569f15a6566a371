"""Costs of reductions: on each tile, exchange, then over the tiles."""

from __future__ import annotations

import dataclasses
import math

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import (
    LEAST_BYTES,
    exchange_code,
    per_worker,
    phase,
    share,
    supervised,
    type_name,
)
from tensorflow_ipu.costs.cost import Cost, OpSpec, Partition, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.releases import CURRENT, Release
from tensorflow_ipu.costs.rules.elementwise import computed_type, is_float, vertex_cycles

# A reduction vertex: cycles besides the launch, of a worker, and of each loop of a worker; the
# general one has 32 instead of 20. Source: `popops` of graphcore/poplibs.
_VERTEX, _WORKER, _LOOP = 22, 32, 10
# Elements that a worker adds up in one cycle. Source: the same; half as many for others.
_SUMMED = {"float16": 8, "bfloat16": 8, "float32": 4}
_OTHERS_SUMMED = 1
# Partial results are kept in 32 bits.
_PARTIAL_BYTES = 4
# Bytes that move together: words of the exchange.
_WORD = 4
# Most partial results that are added up in one stage, and in two. Source: `poplin`.
_LAST_OF_STAGES = (15, 124)


def received_messages(partials: int) -> int:
    """Returns the partial results that a tile receives for one result.

    Formula: `n x p^(1/n)` of p partial results in n stages, which are 1 below 16, 2 from 16 and 3
    from 125 on. Where another stage begins, the number is not let fall, as more work never takes
    less time.

    Args:
        partials: tiles that have a part of the result.
    """
    last_of_each = (min(partials, most) for most in (*_LAST_OF_STAGES, partials))
    return max(
        math.ceil(count * p ** (1 / count))
        for count, p in enumerate(last_of_each, start=1)
        if count == 1 or p > _LAST_OF_STAGES[count - 2]
    )


def tile_cycles(
    elements: int, results: int, dtype: str, chip: Chip, release: Release = CURRENT
) -> float:
    """Returns the cycles of one reduction vertex.

    Formula: `launch + 22 + workers x (32 + ceil(n / width) + 10 x loops)`; n elements and the
    vectors of results ("loops") are those of the busiest worker. Source: `popops`, whose vertices
    take 20 to 32 cycles a worker and 7 to 10 a loop. A release may take more for each element.

    Args:
        elements: elements on the tile.
        results: results that they are reduced to.
        dtype: type of the elements.
        chip: the chip.
        release: the release of the SDK.
    """
    width = _SUMMED.get(dtype, _OTHERS_SUMMED)
    work = -(-per_worker(elements, chip) // width)
    loops = -(-per_worker(results, chip) // width)
    vertex = _VERTEX + supervised(_WORKER + work + _LOOP * loops, chip)
    return vertex + release.sum_cycles * elements


def reduction(
    name: str, source: TensorType, results: int, trailing: bool, resources: Resources
) -> Cost:
    """Returns the cost of a reduction, in place or after moving the data, whichever takes less.

    In place: a vertex over the elements of a tile; exchange of the partial results of 4 bytes; a
    vertex over those. When the last dimensions are reduced, a tile has all of a result but for the
    first and the last, so it has `ceil(results / tiles) + 1` partial results and receives those
    and `n x p^(1/n)` of n stages. Else it has one for each result at most, and receives as many.
    Moving: tiles receive all of some results each, in whole words, and one vertex reduces them.

    Args:
        name: name of the operation, for the vertex.
        source: what is reduced.
        results: number of results.
        trailing: whether the last dimensions are reduced, so that a result's elements are together.
        resources: what it has at its disposal.
    """
    results = max(min(results, source.elements), 1)
    in_place = _in_place(name, source, results, trailing, resources)
    if trailing:
        return in_place
    moved = _moved(name, source, results, resources)
    return min(in_place, moved, key=lambda cost: cost.cycles)


def _moved(name: str, source: TensorType, results: int, resources: Resources) -> Cost:
    """Prices a reduction of elements that are brought together first."""
    chip = resources.chip
    grain = max(_WORD // max(source.element_size, 1), 1)
    words = -(-results // grain)
    each = min(-(-words // resources.tiles) * grain, results)
    elements = each * -(-source.elements // results)
    received = elements * source.element_size
    cost = phase(
        tile_cycles(elements, each, source.dtype, chip, resources.release) + _phase(resources),
        f"Reduce{name}_{type_name(source.dtype)}",
        chip,
        received=received,
        temporary=received,
        operands=2,
    )
    return dataclasses.replace(cost, partition=Partition((("columns", -(-results // each)),)))


def _in_place(
    name: str, source: TensorType, results: int, trailing: bool, resources: Resources
) -> Cost:
    """Prices a reduction on the tiles that have the data, and of the partial results."""
    chip = resources.chip
    on_tile = share(source.elements, source.element_size, resources.tiles)
    partials = min(-(-results // resources.tiles) + 1 if trailing else results, on_tile)
    users = -(-source.num_bytes // LEAST_BYTES)
    messages = received_messages(min(users, resources.tiles))
    received = (partials + messages) * _PARTIAL_BYTES
    codelet = f"Reduce{name}_{type_name(source.dtype)}"
    first = tile_cycles(on_tile, partials, source.dtype, chip, resources.release)
    local = phase(first + _phase(resources), codelet, chip, operands=2)
    last = "float32" if is_float(source.dtype) else source.dtype
    final = phase(
        tile_cycles(received // _PARTIAL_BYTES, partials, last, chip, resources.release)
        + _phase(resources),
        f"Reduce{name}_{type_name(last)}",
        chip,
        received=received,
        temporary=partials * _PARTIAL_BYTES,
        operands=2,
    )
    # More tiles may have more messages, but must not need more memory: as if on all that have data.
    code = exchange_code((partials + received_messages(users)) * _PARTIAL_BYTES)
    return local + dataclasses.replace(final, exchange_code=code)


def _phase(resources: Resources) -> int:
    """Returns the cycles of a phase of a reduction over tiles besides vertex and exchange."""
    return resources.release.sum_phase_cycles if resources.tiles > 1 else 0


def is_trailing(source: TensorType, result: TensorType, axes: tuple[int, ...] | None) -> bool:
    """Returns whether a reduction is over the last dimensions.

    Args:
        source: what is reduced.
        result: the result.
        axes: dimensions that are reduced; None if unknown: then the shapes tell.
    """
    rank = len(source.shape)
    if axes is not None:
        return sorted(axes) == list(range(rank - len(axes), rank))
    if len(result.shape) == rank:
        kept = [index for index in range(rank) if result.shape[index] == source.shape[index] != 1]
        return kept == list(range(len(kept)))
    return result.shape == source.shape[: len(result.shape)]


def _cost(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a reduction op, by its axes."""
    source, result = spec.input(0), spec.output()
    trailing = is_trailing(source, result, spec.integers("axes"))
    return reduction(spec.type, source, result.elements, trailing, resources)


def _of_squares(spec: OpSpec, resources: Resources) -> Cost:
    """Prices EuclideanNorm: a reduction of squares, and a square root of each result."""
    result = spec.output()
    on_tile = share(result.elements, result.element_size, resources.tiles)
    roots = vertex_cycles("sqrt", on_tile, result.dtype, resources.chip)
    root = phase(roots, f"Sqrt_{type_name(result.dtype)}", resources.chip, operands=2)
    return _cost(spec, resources) + root


def _to_one(spec: OpSpec, resources: Resources) -> Cost:
    """Prices L2Loss: all elements are reduced."""
    return reduction("SquareSum", spec.input(0), 1, True, resources)


def _to_channels(spec: OpSpec, resources: Resources) -> Cost:
    """Prices BiasAddGrad: all dimensions but the channels are reduced."""
    return reduction("Sum", spec.input(0), spec.output().elements, False, resources)


def _argument(spec: OpSpec, resources: Resources) -> Cost:
    """Prices ArgMax and ArgMin: a reduction of twice the data, with an index for each element."""
    source, result = spec.input(0), spec.output()
    trailing = is_trailing(source, result, spec.integers("axes"))
    pairs = TensorType(source.dtype, (2, *source.shape))
    return reduction(spec.type, pairs, 2 * result.elements, trailing, resources)


def _segments(spec: OpSpec, resources: Resources) -> Cost:
    """Prices in-top-k and the like: a comparison with a row's element, and a count per row."""
    whole = computed_type(spec)
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    cycles = vertex_cycles("compare", on_tile, whole.dtype, resources.chip)
    compare = phase(cycles, "Compare", resources.chip, label=Label.ASSUMED)
    rows = spec.output().elements
    return compare + reduction("Count", whole, rows, True, resources)


RULES: dict[str, Rule] = {
    **rules(_cost, "Sum Mean Max Min Prod All Any", "axes"),
    **rules(_of_squares, "EuclideanNorm", "axes"),
    **rules(_to_one, "L2Loss"),
    **rules(_to_channels, "BiasAddGrad"),
    **rules(_argument, "ArgMax ArgMin", "axes"),
    **rules(_segments, "InTopK InTopKV2"),
}
