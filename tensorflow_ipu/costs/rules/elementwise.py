"""Costs of elementwise ops, in the vertices of the `popops` library."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import per_worker, phase, share, supervised, type_name
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.figures import label_of
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rule import Rule, rules
from tensorflow_ipu.costs.rules import elementwise_table as table

_HALVES = frozenset({"float16", "bfloat16", "float8_e4m3fn"})
# Numbers that are computed in several of the width that the chip has.
_PARTS = {"float64": 2, "complex64": 2, "complex128": 4}
_FLOATS = _HALVES | {"float32"} | set(_PARTS)


def is_float(dtype: str) -> bool:
    """Returns whether elements of a type go through the floating-point units."""
    return dtype in _FLOATS


def vector_width(dtype: str, chip: Chip) -> int:
    """Returns the elements of one worker instruction."""
    return chip.half_vector_width if dtype in _HALVES else chip.float_vector_width


def tile_cycles(
    op: str, elements_per_tile: int, dtype: str, chip: Chip, operands: int = 0
) -> float:
    """Returns the cycles of an elementwise op on a tile, with those of its compute set.

    Formula: `compute set + fixed + launch + workers x (overhead + sum over functions of
    ceil(n / width) x cycles)`, n being the elements of the busiest worker. Integers take 7 cycles
    each, or 277 to divide. Source: see `elementwise_table`; the fixed part is measured:
    `Chip.elementwise_cycles`.

    Args:
        op: op type such as `AddV2`, or a function of the table such as `add`.
        elements_per_tile: elements on the tile.
        dtype: their type.
        chip: the chip.
        operands: operands of the op; 0 for two, or one where the function has one.
    """
    return vertex_cycles(op, elements_per_tile, dtype, chip, operands) + chip.compute_set_cycles


def vertex_cycles(op: str, elements: int, dtype: str, chip: Chip, operands: int = 0) -> float:
    """Returns the cycles of the vertex alone; see `tile_cycles`."""
    count = per_worker(elements * _PARTS.get(dtype, 1), chip)
    if op in table.NONLINEARITIES and is_float(dtype):
        return _nonlinearity_cycles(op, count, dtype, chip)
    names = table.primitives(op)
    return _cycles(names, count, dtype, _overhead(op, dtype, operands), chip)


def expression_cycles(names: Sequence[str], elements: int, dtype: str, chip: Chip) -> float:
    """Returns the cycles of a vertex that computes several functions in a row."""
    return map_cycles([(names, dtype)], elements, chip)


def map_cycles(steps: Sequence[tuple[Sequence[str], str]], elements: int, chip: Chip) -> float:
    """Returns the cycles of a vertex that computes an expression, as `popops::map` makes it.

    Formula: as `tile_cycles`, without the compute set; the overhead of a worker is there once.

    Args:
        steps: functions of the table in a row, and the type that they are computed in.
        elements: elements on the tile.
        chip: the chip.
    """
    overhead = max((_overhead("", dtype, 2) for _, dtype in steps), default=table.UNARY_OVERHEAD)
    work = sum(
        _work(names, per_worker(elements * _PARTS.get(dtype, 1), chip), dtype, chip)
        for names, dtype in steps
    )
    return chip.elementwise_cycles + supervised(overhead + work, chip)


def _cycles(names: Sequence[str], count: int, dtype: str, overhead: int, chip: Chip) -> float:
    """Cycles of a vertex, from the functions on each of a worker's elements."""
    return chip.elementwise_cycles + supervised(overhead + _work(names, count, dtype, chip), chip)


def _work(names: Sequence[str], count: int, dtype: str, chip: Chip) -> int:
    """Cycles of a worker for some functions on each of its elements."""
    if is_float(dtype):
        return sum(_vectors(name, count, dtype, chip) for name in names)
    return count * _integer(names)


def _vectors(name: str, count: int, dtype: str, chip: Chip) -> int:
    """Cycles of one function on a worker's elements."""
    entry = table.PRIMITIVES[name]
    cycles, width = entry.half if dtype in _HALVES else entry.single
    return -(-count // (width or vector_width(dtype, chip))) * cycles


def _integer(names: Sequence[str]) -> int:
    """Cycles of some functions on one integer."""
    return sum(
        table.INTEGER_DIVISION_CYCLES if name in table.DIVISIONS else table.INTEGER_CYCLES
        for name in names
    )


_UNARY = frozenset(
    "exp log tanh sigmoid sqrt rsqrt inverse relu gelu_erf erf sin cos abs negate sign round copy "
    "arc gamma".split()
)


def _overhead(op: str, dtype: str, operands: int) -> int:
    """Cycles of a worker besides its elements."""
    if op in ("exp", "Exp"):
        return table.EXP_OVERHEAD
    if operands == 1 or (operands == 0 and table.primitives(op)[0] in _UNARY):
        return table.UNARY_OVERHEAD
    return table.BINARY_OVERHEAD_HALF if dtype in _HALVES else table.BINARY_OVERHEAD_SINGLE


def _nonlinearity_cycles(op: str, count: int, dtype: str, chip: Chip) -> float:
    """A non-linearity: `fixed + 9 + workers x (22 + c1 + (vectors - 1) x cv + 5 + c1)`."""
    entry = table.NONLINEARITIES[op]
    first, further = entry.half if dtype in _HALVES else entry.single
    vectors = -(-count // vector_width(dtype, chip))
    work = table.NONLINEARITY_BEFORE + 2 * first + max(vectors - 1, 0) * further
    worker = work + table.NONLINEARITY_AFTER
    supervisor = table.NONLINEARITY_SUPERVISOR + chip.elementwise_cycles
    return supervisor + chip.workers_per_tile * worker


def computed_type(spec: OpSpec) -> TensorType:
    """Returns the type an op computes in, with the shape of the largest thing it has."""
    tensors = [t for t in (*spec.outputs, *spec.inputs) if t.element_size]
    if not tensors:
        return TensorType("int32", ())
    largest = max(tensors, key=lambda tensor: tensor.elements)
    floats = [t for t in (*spec.inputs, *spec.outputs) if is_float(t.dtype)]
    dtype = floats[0].dtype if floats else largest.dtype
    return TensorType(dtype, largest.shape)


def elementwise(spec: OpSpec, resources: Resources) -> Cost:
    """Returns the cost of an elementwise op with broadcasting.

    Args:
        spec: the op.
        resources: what it has at its disposal.
    """
    whole = computed_type(spec)
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    smaller = [t for t in spec.inputs if t.elements < whole.elements]
    return _on_tiles(spec, whole.dtype, on_tile, smaller, resources)


def unknown(spec: OpSpec, resources: Resources) -> Cost:
    """Returns the cost of an op nothing is known of: a few simple operations on each element.

    Formula: an addition, a product and a selection on each element of its largest operand or
    result; the tiles receive all operands, which may be laid out in any way. Assumed, for lack of
    any better figure.

    Args:
        spec: the op.
        resources: what it has at its disposal.
    """
    whole = computed_type(spec)
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    cost = _on_tiles(spec, whole.dtype, on_tile, spec.inputs, resources)
    return dataclasses.replace(cost, label=Label.ASSUMED)


def _on_tiles(
    spec: OpSpec, dtype: str, on_tile: int, copied: Sequence[TensorType], resources: Resources
) -> Cost:
    """The cost of an op, given which operands tiles receive copies of.

    An operand of one element is part of the vertex; of others a tile receives all, or as much as
    it has elements.
    """
    received = sum(min(t.elements, on_tile) * t.element_size for t in copied if t.elements > 1)
    operands = max(len(spec.inputs), 1)
    return phase(
        vertex_cycles(spec.type, on_tile, dtype, resources.chip, min(operands, 2)),
        f"{spec.type}_{type_name(dtype)}",
        resources.chip,
        received=received,
        temporary=received,
        operands=operands + len(spec.outputs),
        label=table.element_label(spec.type),
    )


def _sum_of_many(spec: OpSpec, resources: Resources) -> Cost:
    """AddN: one addition for each operand but the first, in one vertex."""
    whole = spec.output()
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    names = ("add",) * max(len(spec.inputs) - 1, 1)
    cycles = expression_cycles(names, on_tile, whole.dtype, resources.chip)
    codelet = f"AddN_{type_name(whole.dtype)}"
    return phase(cycles, codelet, resources.chip, operands=len(spec.inputs) + 1)


def _power(spec: OpSpec, resources: Resources) -> Cost:
    """Pow: two products where the exponent is one number, else a function call for each element.

    A constant whole exponent, such as the 3 of GELU, becomes products in XLA. Its value is not
    known here, so one number is taken for such a constant.
    """
    if spec.input(1).elements != 1:
        return elementwise(spec, resources)
    cube = OpSpec("Cube", spec.inputs[:1], spec.outputs, spec.attributes)
    return dataclasses.replace(elementwise(cube, resources), label=Label.ASSUMED)


def _cast(spec: OpSpec, resources: Resources) -> Cost:
    """Cast: `19 + one per vector` on each worker."""
    source, result = spec.input(0), spec.output()
    chip = resources.chip
    size = max(source.element_size, result.element_size)
    on_tile = share(source.elements, size, resources.tiles)
    width = min(vector_width(t.dtype, chip) for t in (source, result))
    worker = table.CAST_OVERHEAD + -(-per_worker(on_tile, chip) // width)
    codelet = f"Cast_{type_name(source.dtype)}_{type_name(result.dtype)}"
    return phase(supervised(worker, chip), codelet, chip, operands=2)


def fill_cycles(num_bytes: int, chip: Chip) -> float:
    """Returns the tile's cycles to set memory: `26 + bytes / store rate` on each worker."""
    worker = table.FILL_OVERHEAD + -(-per_worker(num_bytes, chip) // chip.store_rate)
    return supervised(worker, chip)


def _fill(spec: OpSpec, resources: Resources) -> Cost:
    """Fill of the result with one value."""
    result = spec.output()
    on_tile = share(result.elements, result.element_size, resources.tiles)
    cycles = fill_cycles(on_tile * result.element_size, resources.chip)
    label = label_of(resources.chip, "store_rate")
    return phase(cycles, f"Fill_{type_name(result.dtype)}", resources.chip, operands=1, label=label)


RULES: dict[str, Rule] = {
    **rules(elementwise, " ".join((*table.EXPRESSIONS, *table.NONLINEARITIES))),
    **rules(_sum_of_many, "AddN AccumulateNV2"),
    **rules(_power, "Pow"),
    **rules(_cast, "Cast"),
    **rules(_fill, "Fill ZerosLike OnesLike Range LinSpace"),
}
