"""Table of the cycles of elementwise functions on one worker.

Source: graphcore/poplibs, the table of unary and binary operations of `popops` and that of the
non-linearities of `popnn`. Rows marked `assumed` are not in them: they are taken from a function
of the same kind. An entry is (cycles, elements): that many cycles for each so many elements; 0
elements stands for the vector width of the chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu.costs.label import Label, worst


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

# What an unknown function is taken for: a few simple operations on each element.
UNKNOWN = ("add", "multiply", "select")


def primitives(op: str) -> tuple[str, ...]:
    """Returns the functions of the table that an op type or a function of the table is made of."""
    if op in PRIMITIVES:
        return (op,)
    return EXPRESSIONS.get(op, UNKNOWN)


def element_label(op: str) -> Label:
    """Returns how far the cycles of an op type can be trusted."""
    if op in NONLINEARITIES:
        return NONLINEARITIES[op].label
    if op not in PRIMITIVES and op not in EXPRESSIONS:
        return Label.ASSUMED
    return expression_label(primitives(op))


def expression_label(names: Sequence[str]) -> Label:
    """Returns how far the cycles of several functions of the table in a row can be trusted."""
    return worst(PRIMITIVES[name].label for name in names)
