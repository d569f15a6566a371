"""Costs of elementwise ops, in the vertices of the `popops` library."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import per_worker, phase, share, supervised, type_name
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.label import Label, label_of, worst
from tensorflow_ipu.util import op_names

# --- Cycles of elementwise functions on one worker ---

# Source: graphcore/poplibs, the table of unary and binary operations of `popops` and that of the
# non-linearities of `popnn`. Rows marked `assumed` are not in them: they are taken from a function
# of the same kind. An entry is (cycles, elements): that many cycles for each so many elements; 0
# elements stands for the vector width of the chip.


class FunctionCycles(NamedTuple):
    """Cycles of one function.

    Args:
        single: (cycles, elements) in float32.
        half: (cycles, elements) in float16.
        label: `modelled` for what the library has, `assumed` for the rest.
    """

    single: tuple[int, int]
    half: tuple[int, int]
    label: Label = Label.MODELLED


_SIMPLE = (3, 0)

_A = Label.ASSUMED

#: One primitive function each.
PRIMITIVES: dict[str, FunctionCycles] = {
    "add": FunctionCycles(_SIMPLE, _SIMPLE),
    "subtract": FunctionCycles(_SIMPLE, _SIMPLE),
    "multiply": FunctionCycles(_SIMPLE, _SIMPLE),
    "divide": FunctionCycles((10, 2), (21, 4)),
    "maximum": FunctionCycles((3, 2), (4, 4)),
    "minimum": FunctionCycles((3, 2), (4, 4)),
    "power": FunctionCycles((312, 1), (312, 1)),
    "exp": FunctionCycles((6, 2), (4, 4)),
    "log": FunctionCycles((12, 2), (4, 4)),
    "tanh": FunctionCycles((12, 2), (4, 4)),
    "sigmoid": FunctionCycles((12, 2), (6, 4)),
    "sqrt": FunctionCycles((10, 2), (23, 4)),
    "rsqrt": FunctionCycles((8, 2), (19, 4)),
    "inverse": FunctionCycles((6, 2), (15, 4)),
    "relu": FunctionCycles((3, 2), (3, 4)),
    # In an expression; by itself it is a vertex of its own.
    "cast": FunctionCycles((1, 0), (1, 0)),
    "gelu_erf": FunctionCycles((22, 1), (16, 1)),
    "erf": FunctionCycles((41, 1), (13, 1)),
    "sin": FunctionCycles((2300, 1), (25, 1)),
    "cos": FunctionCycles((2300, 1), (25, 1)),
    # Not in the library's table: as `maximum`, which also loads, computes and stores a vector.
    "abs": FunctionCycles((3, 2), (4, 4), _A),
    "negate": FunctionCycles((3, 2), (4, 4), _A),
    "sign": FunctionCycles((3, 2), (4, 4), _A),
    "round": FunctionCycles((3, 2), (4, 4), _A),
    "compare": FunctionCycles((3, 2), (4, 4), _A),
    "select": FunctionCycles((4, 2), (5, 4), _A),
    "copy": FunctionCycles((2, 2), (2, 4), _A),
    # Not in the library's table: as `power`, a call of a function for each element.
    "arc": FunctionCycles((312, 1), (312, 1), _A),
    "gamma": FunctionCycles((312, 1), (312, 1), _A),
}

#: Cycles of a worker besides its elements, by number of operands; three are taken as two.
UNARY_OVERHEAD = 17

EXP_OVERHEAD = 33

BINARY_OVERHEAD_SINGLE, BINARY_OVERHEAD_HALF = 29, 26

#: Cycles for each element of integers and booleans, and for each integer division.
INTEGER_CYCLES, INTEGER_DIVISION_CYCLES = 7, 277

DIVISIONS = frozenset({"divide"})

#: Cast: cycles of a worker besides its vectors, of which each takes one.
CAST_OVERHEAD = 19

#: Fill: cycles of a worker besides its stores, of which each takes one; 22 to 26 in the source.
FILL_OVERHEAD = 26

#: Non-linearities with a vertex of their own: (first, each further vector) by type.
NONLINEARITIES: dict[str, FunctionCycles] = {
    "Relu": FunctionCycles((1, 1), (1, 1)),
    "Sigmoid": FunctionCycles((5, 10), (2, 4)),
    "Tanh": FunctionCycles((5, 10), (1, 2)),
    # The source calls those of GELU placeholders.
    "Gelu": FunctionCycles((10, 10), (5, 5), _A),
    "Swish": FunctionCycles((6, 11), (3, 5)),
    "ReluGrad": FunctionCycles((3, 3), (3, 3)),
    "SigmoidGrad": FunctionCycles((3, 3), (3, 3)),
    "TanhGrad": FunctionCycles((3, 3), (3, 3)),
    "GeluGrad": FunctionCycles((10, 10), (5, 5), _A),
    "SwishGrad": FunctionCycles((10, 15), (7, 9)),
}

#: Cycles of a worker in such a vertex: before its vectors (20 + 2) and after them (1 + 4).
NONLINEARITY_BEFORE, NONLINEARITY_AFTER = 22, 5

#: Cycles of its supervisor.
NONLINEARITY_SUPERVISOR = 9


def _expressions(text: str) -> dict[str, tuple[str, ...]]:
    """Reads lines `types = primitives`."""
    rows = (line.split("=") for line in text.strip().splitlines())
    return {name: tuple(right.split()) for left, right in rows for name in left.split()}


#: Primitives that each op type is made of. The library makes one vertex of an expression.
EXPRESSIONS = _expressions(
    """
    Add AddV2 BiasAdd BiasAddV1 = add
    Sub = subtract
    Mul = multiply
    Div RealDiv = divide
    DivNoNan = divide select
    MulNoNan = multiply select
    FloorDiv TruncateDiv = divide round
    Mod FloorMod TruncateMod = divide round multiply subtract
    Maximum = maximum
    Minimum = minimum
    Pow = power
    Cube = multiply multiply
    SquaredDifference = subtract multiply
    Lerp = subtract multiply add
    Xdivy = divide select
    Xlogy = log multiply select
    Xlog1py = add log multiply select
    Atan2 = divide arc
    NextAfter = compare select
    Equal NotEqual Less LessEqual Greater GreaterEqual = compare
    ApproximateEqual = subtract abs compare
    IsNan IsInf IsFinite LogicalNot = compare
    LogicalAnd LogicalOr BitwiseAnd BitwiseOr BitwiseXor Invert LeftShift RightShift = compare
    PopulationCount = compare
    Select SelectV2 = select
    ClipByValue = maximum minimum
    Abs ComplexAbs = abs
    Neg = negate
    Sign = sign
    Floor Ceil Round Rint = round
    Square = multiply
    Sqrt = sqrt
    Rsqrt = rsqrt
    Inv Reciprocal = inverse
    Exp = exp
    Expm1 = exp subtract
    Log = log
    Log1p = add log
    Sin = sin
    Cos = cos
    Tan = sin cos divide
    Sinh Cosh = exp inverse add multiply
    Asin Acos Atan Acosh Asinh Atanh = arc
    Erf = erf
    Erfc = erf subtract
    Erfinv Ndtri = gamma
    Lgamma Digamma Polygamma Zeta Betainc Igamma Igammac IgammaGradA RandomGammaGrad = gamma
    BesselI0e BesselI1e = gamma
    Relu6 = maximum minimum
    LeakyRelu = multiply maximum
    Elu = exp subtract select
    Selu = exp subtract multiply select
    Softplus = exp add log
    Softsign = abs add divide
    Relu6Grad = compare compare select
    LeakyReluGrad = compare multiply select
    EluGrad = add multiply select
    SeluGrad = add multiply select
    SoftplusGrad = negate exp add divide
    SoftsignGrad = abs add multiply divide
    SqrtGrad = multiply divide
    RsqrtGrad = multiply multiply multiply multiply
    InvGrad ReciprocalGrad = multiply multiply negate
    Real Imag Conj Complex Angle = copy
    FakeQuantWithMinMaxVars FakeQuantWithMinMaxArgs = multiply round multiply maximum minimum
    """
)

# Elementwise ops with a rule of their own.
_ELEMENTWISE_BESIDES = frozenset({"AddN", "Cast"})

# What an unknown function is taken for: a few simple operations on each element.
UNKNOWN = ("add", "multiply", "select")


def primitives(op: str) -> tuple[str, ...]:
    """Returns the primitive functions of an op type or of a function of the table."""
    if op in PRIMITIVES:
        return (op,)
    return EXPRESSIONS.get(op, UNKNOWN)


def is_elementwise(op_type: str) -> bool:
    """Returns whether each element of a result follows from one element of each operand."""
    return op_type in EXPRESSIONS or op_type in NONLINEARITIES or op_type in _ELEMENTWISE_BESIDES


def element_label(op: str) -> Label:
    """Returns the label of the cycles of an op type."""
    if op in NONLINEARITIES:
        return NONLINEARITIES[op].label
    if op not in PRIMITIVES and op not in EXPRESSIONS:
        return Label.ASSUMED
    return expression_label(primitives(op))


def expression_label(names: Sequence[str]) -> Label:
    """Returns the label of the cycles of several functions of the table in a row."""
    return worst(PRIMITIVES[name].label for name in names)


# --- One op, one vertex ---

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
    """Returns the cycles of an elementwise op on a tile, its compute set included.

    Formula: `compute set + fixed + launch + workers x (overhead + sum over functions of
    ceil(n / width) x cycles)`, n being the elements of the busiest worker. Integers take 7 cycles
    each, or 277 to divide. Source: see the table above; the fixed part is measured:
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
    if op in NONLINEARITIES and is_float(dtype):
        return _nonlinearity_cycles(op, count, dtype, chip)
    names = primitives(op)
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
    overhead = max((_overhead("", dtype, 2) for _, dtype in steps), default=UNARY_OVERHEAD)
    work = sum(
        _work(names, per_worker(elements * _PARTS.get(dtype, 1), chip), dtype, chip)
        for names, dtype in steps
    )
    return chip.elementwise_cycles + supervised(overhead + work, chip)


def _cycles(names: Sequence[str], count: int, dtype: str, overhead: int, chip: Chip) -> float:
    """Returns the cycles of a vertex, from the functions on each of a worker's elements."""
    return chip.elementwise_cycles + supervised(overhead + _work(names, count, dtype, chip), chip)


def _work(names: Sequence[str], count: int, dtype: str, chip: Chip) -> int:
    """Returns the cycles of a worker for some functions on each of its elements."""
    if is_float(dtype):
        return sum(_vectors(name, count, dtype, chip) for name in names)
    return count * _integer(names)


def _vectors(name: str, count: int, dtype: str, chip: Chip) -> int:
    """Returns the cycles of one function on a worker's elements."""
    entry = PRIMITIVES[name]
    cycles, width = entry.half if dtype in _HALVES else entry.single
    return -(-count // (width or vector_width(dtype, chip))) * cycles


def _integer(names: Sequence[str]) -> int:
    """Returns the cycles of some functions on one integer."""
    return sum(INTEGER_DIVISION_CYCLES if name in DIVISIONS else INTEGER_CYCLES for name in names)


_UNARY = frozenset(
    "exp log tanh sigmoid sqrt rsqrt inverse relu gelu_erf erf sin cos abs negate sign round copy "
    "arc gamma".split()
)


def _overhead(op: str, dtype: str, operands: int) -> int:
    """Returns the cycles of a worker besides its elements."""
    if op in ("exp", "Exp"):
        return EXP_OVERHEAD
    if operands == 1 or (operands == 0 and primitives(op)[0] in _UNARY):
        return UNARY_OVERHEAD
    return BINARY_OVERHEAD_HALF if dtype in _HALVES else BINARY_OVERHEAD_SINGLE


def _nonlinearity_cycles(op: str, count: int, dtype: str, chip: Chip) -> float:
    """Returns `fixed + 9 + workers x (22 + c1 + (vectors - 1) x cv + 5 + c1)` cycles."""
    entry = NONLINEARITIES[op]
    first, further = entry.half if dtype in _HALVES else entry.single
    vectors = -(-count // vector_width(dtype, chip))
    work = NONLINEARITY_BEFORE + 2 * first + max(vectors - 1, 0) * further
    worker = work + NONLINEARITY_AFTER
    supervisor = NONLINEARITY_SUPERVISOR + chip.elementwise_cycles
    return supervisor + chip.workers_per_tile * worker


def computed_type(spec: OpSpec) -> TensorType:
    """Returns the type an op computes in, with the shape of its largest tensor."""
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
    """Returns the cost of an unknown op: a few simple operations on each element.

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
    """Returns the cost of an op, given the operands that tiles receive copies of.

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
        label=element_label(spec.type),
    )


def _sum_of_many(spec: OpSpec, resources: Resources) -> Cost:
    """Prices AddN: one addition for each operand but the first, in one vertex."""
    whole = spec.output()
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    names = ("add",) * max(len(spec.inputs) - 1, 1)
    cycles = expression_cycles(names, on_tile, whole.dtype, resources.chip)
    codelet = f"AddN_{type_name(whole.dtype)}"
    return phase(cycles, codelet, resources.chip, operands=len(spec.inputs) + 1)


def _power(spec: OpSpec, resources: Resources) -> Cost:
    """Prices Pow: two products for an exponent of one number, else a call for each element.

    A constant whole exponent, such as the 3 of GELU, becomes products in XLA. Its value is not
    known here, so one number is taken for such a constant.
    """
    if spec.input(1).elements != 1:
        return elementwise(spec, resources)
    cube = OpSpec("Cube", spec.inputs[:1], spec.outputs, spec.attributes)
    return dataclasses.replace(elementwise(cube, resources), label=Label.ASSUMED)


def _cast(spec: OpSpec, resources: Resources) -> Cost:
    """Prices Cast: `19 + one per vector` on each worker."""
    source, result = spec.input(0), spec.output()
    chip = resources.chip
    size = max(source.element_size, result.element_size)
    on_tile = share(source.elements, size, resources.tiles)
    width = min(vector_width(t.dtype, chip) for t in (source, result))
    worker = CAST_OVERHEAD + -(-per_worker(on_tile, chip) // width)
    codelet = f"Cast_{type_name(source.dtype)}_{type_name(result.dtype)}"
    return phase(supervised(worker, chip), codelet, chip, operands=2)


def fill_cycles(num_bytes: int, chip: Chip) -> float:
    """Returns the tile's cycles to set memory: `26 + bytes / store rate` on each worker."""
    worker = FILL_OVERHEAD + -(-per_worker(num_bytes, chip) // chip.store_rate)
    return supervised(worker, chip)


def _fill(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a fill of the result with one value."""
    result = spec.output()
    on_tile = share(result.elements, result.element_size, resources.tiles)
    cycles = fill_cycles(on_tile * result.element_size, resources.chip)
    label = label_of(resources.chip, "store_rate")
    return phase(cycles, f"Fill_{type_name(result.dtype)}", resources.chip, operands=1, label=label)


RULES: dict[str, Rule] = {
    **rules(elementwise, " ".join((*EXPRESSIONS, *NONLINEARITIES))),
    **rules(_sum_of_many, "AddN AccumulateNV2"),
    **rules(_power, "Pow"),
    **rules(_cast, "Cast"),
    **rules(_fill, "Fill ZerosLike OnesLike Range LinSpace"),
}


# --- One expression, one vertex: `popops::map` ---

# They write a variable: what an expression is assigned to, it writes itself.
_ASSIGNMENTS: dict[str, tuple[str, ...]] = {
    op_names.ASSIGN: (),
    **{name: EXPRESSIONS[change] for name, change in op_names.ACCUMULATIONS.items()},
}


def is_assignment(op_type: str) -> bool:
    """Returns whether ops of a type can end an expression by writing a variable."""
    return op_type in _ASSIGNMENTS


def functions(spec: OpSpec) -> tuple[str, ...] | None:
    """Returns the functions of the table for an op of an expression.

    Args:
        spec: the op.

    Returns:
        Their names; None if the op cannot be a part of one, such as a non-linearity, which has a
        vertex of its own, or arithmetic of integers.
    """
    if spec.type in NONLINEARITIES or not is_float(computed_type(spec).dtype):
        return None
    if spec.type == "AddN":
        return ("add",) * max(len(spec.inputs) - 1, 1)
    if spec.type == "Pow" and spec.inputs[-1].elements == 1:
        return EXPRESSIONS["Cube"]
    if spec.type == "Cast":
        return ("cast",)
    found = _ASSIGNMENTS.get(spec.type)
    return EXPRESSIONS.get(spec.type) if found is None else found


@functools.lru_cache(maxsize=8192)
def fused(
    ops: tuple[tuple[str, tuple[TensorType, ...], tuple[TensorType, ...]], ...],
    inputs: tuple[TensorType, ...],
    codelets: tuple[str, ...],
    label: Label,
    resources: Resources,
) -> Cost:
    """Returns the cost of several elementwise ops as one map.

    Formula: one vertex with the functions of all ops on each element; the tiles receive the
    operands that are broadcast. What one op hands to the next stays in registers.

    Args:
        ops: type, inputs and outputs of each, of one shape.
        inputs: what comes from outside.
        codelets: vertex types of the ops by themselves: the code of a map is taken as theirs.
        label: how far the cycles of the ops can be trusted.
        resources: what it has at its disposal.
    """
    specs = [OpSpec(*op, {}) for op in ops]
    steps = [(functions(spec) or (), _step_type(spec)) for spec in specs]
    whole = max((computed_type(spec) for spec in specs), key=lambda tensor: tensor.num_bytes)
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    broadcast = [t for t in inputs if 1 < t.elements < whole.elements]
    received = sum(min(t.elements, on_tile) * t.element_size for t in broadcast)
    cost = phase(
        map_cycles(steps, on_tile, resources.chip),
        "Map",
        resources.chip,
        received,
        received,
        operands=len(inputs) + 1,
        label=label,
    )
    return dataclasses.replace(cost, codelets=codelets)


def _step_type(spec: OpSpec) -> str:
    """Returns the type of the computation of an op of an expression; a cast has the wider one's."""
    tensors = (*spec.inputs, *spec.outputs)
    wide = spec.type == "Cast" and any(t.dtype == "float32" for t in tensors)
    return "float32" if wide else computed_type(spec).dtype
