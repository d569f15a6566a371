"""Bytes, peak rates and fixed costs of ops: the inputs of rooflines and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.partition import Partition
from tensorflow_ipu.costs.rules import data_movement, slicing
from tensorflow_ipu.costs.rules.elementwise import computed_type, vector_width
from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.program.resources import SLICE, ResourceTable, family
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.workload import Op

# The dimension of a partition that only products in the matrix unit have.
_MATRIX_DIMENSION = "outputs"
# Ops that move data. An update of rows adds to each element that it moves.
_MOVES = frozenset({*data_movement.RULES, *slicing.RULES})
# Updates of optimizers that change rows.
_SPARSE_UPDATES = "ResourceSparseApply"


class OpWork(NamedTuple):
    """The least work of one run of an op, and its cost.

    Args:
        flops: floating-point operations, 0 without a formula.
        read: bytes of operands to read.
        written: bytes to write.
        tiles: tiles that have a part of it.
        matrix: whether it is a product that the matrix units compute.
        moves: whether it moves data, with little or no arithmetic.
        peak: floating-point operations of one tile per cycle at most, for its types and units.
        matrix_peak: the same for its matrix unit.
        fixed: cycles of compute that it takes on single elements: starting vertices.
        cost: its cost.
    """

    flops: int
    read: int
    written: int
    tiles: int
    matrix: bool
    moves: bool
    peak: float
    matrix_peak: float
    fixed: float
    cost: Cost


class WorkTable:
    """Least work of ops.

    Args:
        settings: chip, replicas and options.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._resources = ResourceTable(settings)
        self._fixed: dict[tuple[object, ...], float] = {}

    def of(
        self, op: Op, cost: Cost, partition: Partition | None, before: Sequence[Op] = ()
    ) -> OpWork:
        """Returns the work of one run of an op on the IPU.

        Args:
            op: the op.
            cost: its cost.
            partition: its division over the tiles, if there is a choice.
            before: other ops of its fused group.
        """
        spec, chip = _map_spec((*before, op)) if before else op.spec, self._settings.chip
        matrix = partition is not None and _MATRIX_DIMENSION in dict(partition.parts)
        whole = computed_type(spec)
        tiles = partition.tiles if partition else _tiles(spec, self._settings.compute_tiles)
        partials = self._resources.of(op).partials
        matrix_peak = throughput.peak_flops(op, partials, chip) / chip.clock / chip.tiles
        peak = matrix_peak if matrix else float(vector_width(whole.dtype, chip))
        read, written = _bytes(spec)
        fixed = min(max(map(self._fixed_cycles, (op, *before))), cost.compute)
        flops = sum(each.flops or 0 for each in (op, *before))
        moves = op.type in _MOVES
        return OpWork(flops, read, written, tiles, matrix, moves, peak, matrix_peak, fixed, cost)

    def _fixed_cycles(self, op: Op) -> float:
        """Returns the compute cycles of an equal op on operands with one element each."""
        spec = op.spec
        key = (op.type, op.stage, op.phase, *((t.dtype, len(t.shape)) for t in spec.inputs))
        if key not in self._fixed:
            single = spec._replace(
                inputs=tuple(map(_single, spec.inputs)), outputs=tuple(map(_single, spec.outputs))
            )
            resources: Resources = self._resources.of(op)
            self._fixed[key] = catalogue.cost_of(single, resources).compute
        return self._fixed[key]


def _map_spec(ops: Sequence[Op]) -> OpSpec:
    """Returns a fused group as one op: external operands in, the last op's results out."""
    made = {operand.buffer for op in ops[:-1] for operand in op.outputs}
    inputs = dict.fromkeys(
        operand
        for op in ops
        for operand in op.inputs
        if operand.buffer is None or operand.buffer not in made
    )
    last = ops[-1]
    types = tuple(operand.type for operand in inputs)
    made_last = last.spec.outputs or last.spec.inputs[:1]  # an assignment makes its variable
    return OpSpec(last.type, types, made_last, last.attributes)


def _single(tensor: TensorType) -> TensorType:
    """Returns a tensor of the same rank with one element."""
    return TensorType(tensor.dtype, (1,) * len(tensor.shape))


def _tiles(spec: OpSpec, tiles: int) -> int:
    """Returns the number of tiles with a part of the largest tensor, spread in blocks."""
    most = max((tensor.num_bytes for tensor in (*spec.inputs, *spec.outputs)), default=0)
    return max(tile_mapping.spread(most, tiles).last + 1, 1)


def _bytes(spec: OpSpec) -> tuple[int, int]:
    """Returns the bytes that an op has to read and to write.

    An op on slices of a tensor reads and writes the bytes of the slices. These are the bytes of its
    result or, of an update, of its largest operand after the first.
    """
    read = [tensor.num_bytes for tensor in spec.inputs]
    written = [tensor.num_bytes for tensor in spec.outputs]
    updates = spec.type.startswith(_SPARSE_UPDATES)
    if (family(spec.type) == SLICE or updates) and read:
        scattered = updates or any(part in spec.type for part in ("Scatter", "Update", "Assign"))
        if updates:
            # Gradient and indices come last; the other operands are as large as the variable.
            most = max((size for size in read if size < read[0]), default=read[0])
        else:
            most = max(read[1:], default=0) if scattered or not written else max(written)
        read = [min(size, most) for size in read]
        written = [min(size, most) for size in written] or [most]
    if not written and read:
        written = read[:1]  # a variable, in its place
    return sum(read), sum(written)
