"""Costs of ops that move data: transposes, concatenations, slices, paddings.

Poplar gives such an op's result as a view and copies where the next op wants another layout. The
copy is charged here, once, to the op that changes the layout.
"""

from __future__ import annotations

import math

from tensorflow_ipu.costs.chip.exchange import exchange_cycles
from tensorflow_ipu.costs.chip.vertex import LEAST_BYTES, phase, share
from tensorflow_ipu.costs.cost import FREE, Cost, OpSpec, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.label import Label, label_of

# Cycles of a rearrangement: a constant, and so many for each byte on a tile by the bytes that stay
# next to each other (atoms). Source: the later rearrangement estimate of graphcore/poplibs.
REARRANGEMENT_CYCLES = 587
CYCLES_PER_BYTE = {8: 0.44, 4: 3.125, 2: 5.148}
# Largest atom: a tile's data moves in words of 64 bits.
_WHOLE = 8


def cycles_per_byte(atom: int) -> float:
    """Returns the cycles of a rearrangement for each byte on a tile.

    Args:
        atom: bytes that stay next to each other; single bytes take twice as long as pairs.
    """
    if atom < min(CYCLES_PER_BYTE):
        return 2 * CYCLES_PER_BYTE[2]
    return CYCLES_PER_BYTE[max(size for size in CYCLES_PER_BYTE if size <= atom)]


def rearrangement(num_bytes: int, atom: int, resources: Resources) -> Cost:
    """Returns the cost of bringing data into another order on other tiles.

    Formula: `max(587 + k x bytes on a tile, exchange of them)`, which has the exchange in it. While
    it runs, the tile has a copy of what it rearranges, unless whole words move. What fits in the
    128 bytes that a tile has at least, such as shapes, is copied to one tile.

    Args:
        num_bytes: size of the data.
        atom: bytes that stay next to each other.
        resources: what it has at its disposal.
    """
    if num_bytes <= 0:
        return FREE
    if num_bytes <= LEAST_BYTES:
        return _to_one_tile(num_bytes, resources)
    on_tile = share(num_bytes, 1, resources.tiles)
    total = REARRANGEMENT_CYCLES + cycles_per_byte(atom) * on_tile
    exchanging = exchange_cycles(on_tile, resources.chip)
    return phase(
        max(total - exchanging, 0.0),
        f"Rearrange_{min(atom, _WHOLE)}",
        resources.chip,
        received=on_tile,
        temporary=0 if atom >= _WHOLE else on_tile,
        operands=2,
    )


def _to_one_tile(num_bytes: int, resources: Resources) -> Cost:
    """Prices a few bytes that go to one tile."""
    cycles = math.ceil(num_bytes / resources.chip.store_rate)
    label = label_of(resources.chip, "store_rate")
    return phase(cycles, "Copy", resources.chip, received=num_bytes, operands=2, label=label)


def local_copy(num_bytes: int, resources: Resources) -> Cost:
    """Returns the cost of a copy within each tile: `bytes on a tile / store rate`.

    Args:
        num_bytes: size of the data.
        resources: what it has at its disposal.
    """
    on_tile = share(num_bytes, 1, resources.tiles)
    cycles = math.ceil(on_tile / resources.chip.store_rate)
    label = label_of(resources.chip, "store_rate")
    return phase(cycles, "Copy", resources.chip, operands=2, label=label)


def _bytes(tensors: tuple[TensorType, ...]) -> int:
    """Returns the bytes of some tensors together."""
    return sum(tensor.num_bytes for tensor in tensors)


def _smallest_element(spec: OpSpec) -> int:
    """Returns the bytes of an element of the data."""
    return next((t.element_size for t in spec.outputs if t.element_size), 4)


def _contiguous(spec: OpSpec, resources: Resources) -> Cost:
    """Prices moved pieces of rows: all of the result moves, in whole words."""
    return rearrangement(_bytes(spec.outputs), _WHOLE, resources)


def _scattered(spec: OpSpec, resources: Resources) -> Cost:
    """Prices elements that move one by one."""
    return rearrangement(_bytes(spec.outputs), _smallest_element(spec), resources)


def _transpose(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a transpose: whole words if the last dimension stays last, else single elements."""
    source = spec.input(0)
    axes = spec.integers("axes")
    last = len(source.shape) - 1
    if axes:
        stays = axes[-1] == last
    else:
        stays = last > 0 and spec.output().shape[-1:] == source.shape[-1:]
    return rearrangement(_bytes(spec.outputs), _WHOLE if stays else source.element_size, resources)


def _update(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a part that is written over: a copy of the tensor, and the new part moves."""
    values = spec.input(-1)
    return local_copy(_bytes(spec.outputs), resources) + rearrangement(
        values.num_bytes, _WHOLE, resources
    )


def _copy(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a copy on the tiles that have the original."""
    return local_copy(max(_bytes(spec.outputs), _bytes(spec.inputs)), resources)


def _compaction(spec: OpSpec, resources: Resources) -> Cost:
    """Prices elements by a condition, for lack of a vertex as single moved elements. Assumed."""
    moved = max(_bytes(spec.outputs), _bytes(spec.inputs))
    cost = rearrangement(moved, _smallest_element(spec), resources)
    return cost + Cost(label=Label.ASSUMED)


RULES: dict[str, Rule] = {
    **rules(
        _contiguous,
        """
        Concat ConcatV2 Split SplitV Slice StridedSlice StridedSliceGrad Pad PadV2 MirrorPad
        MirrorPadGrad Pack Unpack Tile BroadcastTo Roll DepthToSpace SpaceToDepth SpaceToBatch
        SpaceToBatchND BatchToSpace BatchToSpaceND ParallelConcat ExtractImagePatches
        TensorListConcat TensorListConcatV2 TensorListSplit ReverseSequence
        """,
    ),
    **rules(
        _scattered,
        """
        ReverseV2 Reverse MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2
        MatrixDiagPartV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Diag DiagPart
        InvertPermutation
        """,
    ),
    **rules(_transpose, "Transpose ConjugateTranspose", "axes"),
    **rules(_update, "TensorStridedSliceUpdate InplaceUpdate"),
    **rules(_copy, "DeepCopy TensorListPushBack TensorListPopBack TensorListResize"),
    **rules(_compaction, "Where DynamicPartition UniqueV2 Unique UniqueWithCounts"),
}
