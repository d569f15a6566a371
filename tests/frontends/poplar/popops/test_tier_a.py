"""Functions of popops that public programs use: each has a test of values."""

from __future__ import annotations

from tests.support.poplar.popops import CASES

ELEMENTWISE_UNARY = (
    "abs inv logicalNot neg signum bitwiseNot countLeadingZeros popcount ceil floor round "
    "nearbyint cbrt exp exp2 expm1 log log1p sqrt square rsqrt sigmoid asin cos sin tan tanh "
    "geluErf erf"
).split()
ELEMENTWISE_BINARY = (
    "add sub mul div pow rem bitwiseAnd bitwiseOr bitwiseXor bitwiseXnor shiftLeft shiftRight "
    "shiftRightSignExtend logicalAnd logicalOr eq neq gteq gt lteq lt max min atan2 "
    "invStdDevToVariance varianceToInvStdDev"
).split()
ELEMENTWISE_TERNARY = ["select", "clamp"]
# Comparisons of numbers have a result of another type than their operands.
NOT_IN_PLACE = {"gteq", "gt", "lteq", "lt"}
OTHERS = (
    "isFinite cast zero map mapInPlace reduce dynamicSlice createSliceableTensor dynamicUpdate "
    "countedLoop fill topKWithPermutation createSliceTensors reduceWithOutput multiSlice "
    "groupedMultiSlice multiUpdateAdd scaledAddTo allTrue groupedMultiUpdateAdd iota encodeOneHot "
    "reduceMany gather pad regroupIfBeneficial mapWritten"
).split()


def test_functions_have_tests_of_values() -> None:
    functions = CASES.functions()
    expected = set(OTHERS)
    for name in (*ELEMENTWISE_UNARY, *ELEMENTWISE_BINARY, *ELEMENTWISE_TERNARY):
        expected |= {name} if name in NOT_IN_PLACE else {name, f"{name}InPlace"}
    assert not expected - functions
