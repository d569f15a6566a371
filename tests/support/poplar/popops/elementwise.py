"""Cases of elementwise functions and expressions of popops."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np

from tests.support.poplar.cases import Cases
from tests.support.poplar.session import Session

CASES = Cases()

F32, F16, I32, U32, BOOL = np.float32, np.float16, np.int32, np.uint32, np.bool_
INTEGERS = [np.int32, np.uint32, np.int16, np.uint16, np.int8, np.uint8, np.int64, np.uint64]


def _vectorized(function):
    return lambda x: np.vectorize(function, otypes=[np.float64])(x)


_erf = _vectorized(math.erf)

# Name: reference in double precision, lowest and highest argument.
FLOAT_UNARY = {
    "abs": (np.abs, -5, 5),
    "asin": (np.arcsin, -1, 1),
    "cbrt": (np.cbrt, -9, 9),
    "ceil": (np.ceil, -5, 5),
    "cos": (np.cos, -5, 5),
    "erf": (_erf, -3, 3),
    "exp": (np.exp, -4, 4),
    "exp2": (np.exp2, -4, 4),
    "expm1": (np.expm1, -1, 1),
    "floor": (np.floor, -5, 5),
    "geluErf": (lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), -3, 3),
    "inv": (lambda x: 1 / x, 0.5, 4),
    "log": (np.log, 0.1, 9),
    "log1p": (np.log1p, -0.5, 2),
    "nearbyint": (np.rint, -5, 5),
    "neg": (np.negative, -5, 5),
    "round": (lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), -5, 5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -5, 5),
    "signum": (np.sign, -2, 2),
    "sin": (np.sin, -5, 5),
    "sqrt": (np.sqrt, 0, 9),
    "square": (np.square, -3, 3),
    "tan": (np.tan, -1, 1),
    "tanh": (np.tanh, -3, 3),
}
PREDICATES = {"isFinite": np.isfinite, "isInf": np.isinf, "isNaN": np.isnan}
FLOAT_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "rem": np.fmod,
    "atan2": np.arctan2,
    "pow": lambda a, b: np.power(np.abs(a), b),
    "varianceToInvStdDev": lambda a, b: 1 / np.sqrt(a + b),
    "invStdDevToVariance": lambda a, b: 1 / (a * a) - b,
}
COMPARISONS = {
    "eq": np.equal,
    "neq": np.not_equal,
    "gt": np.greater,
    "gteq": np.greater_equal,
    "lt": np.less,
    "lteq": np.less_equal,
}


def _quotients(a, b):
    """Divides as C does: towards zero."""
    signs = [-1 if (x < 0) != (y < 0) else 1 for x, y in np.broadcast(a, b)]
    values = [s * (abs(int(x)) // abs(int(y))) for s, (x, y) in zip(signs, np.broadcast(a, b))]
    return np.array(values, a.dtype).reshape(np.broadcast_shapes(a.shape, b.shape))


INTEGER_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "div": _quotients,
    "rem": np.fmod,
    "bitwiseAnd": np.bitwise_and,
    "bitwiseOr": np.bitwise_or,
    "bitwiseXor": np.bitwise_xor,
    "bitwiseXnor": lambda a, b: ~(a ^ b),
}


def _floats(session: Session, shape, low, high, dtype):
    return session.rng.uniform(low, high, shape).astype(dtype)


@CASES.add
def unary_functions_of_floats(session: Session) -> None:
    """All three forms, on contiguous tensors and on views."""
    for name, (function, low, high) in FLOAT_UNARY.items():
        for dtype in (F32, F16):
            x = _floats(session, (3, 5), low, high, dtype)
            x[0, 0] = {"round": 2.5, "nearbyint": 2.5, "signum": 0}.get(name, x[0, 0])
            expected = function(x.astype(np.float64)).astype(dtype)
            session.expect(session.call(name, session.viewed(x)), expected)
            in_place = session.viewed(x)
            session.call(f"{name}InPlace", in_place, result=False)
            session.expect(in_place, expected)
            out = session.viewed(np.zeros_like(x))
            session.call(f"{name}WithOutput", session.tensor(x), out, result=False)
            session.expect(out, expected)


@CASES.add
def predicates_of_floats(session: Session) -> None:
    """Infinities, not-a-numbers and numbers."""
    for name, function in PREDICATES.items():
        for dtype in (F32, F16):
            x = np.array([1, np.inf, -np.inf, np.nan, 0], dtype)
            session.expect(session.call(name, session.tensor(x)), function(x))


@CASES.add
def unary_functions_of_integers(session: Session) -> None:
    """Wrapping, bits and signs of all integers."""
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        x = np.array([info.min, info.max, 0, 1, 5, 77], dtype)
        bits = 8 * info.dtype.itemsize
        unsigned = [int(v) & ((1 << bits) - 1) for v in x]
        with np.errstate(over="ignore"):
            expected = {
                "abs": np.abs(x),
                "neg": (-x.astype(np.int64)).astype(dtype) if bits < 64 else -x,
                "square": x * x,
                "signum": np.sign(x),
                "bitwiseNot": ~x,
                "popcount": np.array([bin(v).count("1") for v in unsigned], dtype),
                "countLeadingZeros": np.array([bits - v.bit_length() for v in unsigned], dtype),
            }
        for name, values in expected.items():
            session.expect(session.call(name, session.tensor(x)), values)
            in_place = session.tensor(x)
            session.call(f"{name}InPlace", in_place, result=False)
            session.expect(in_place, values)


@CASES.add
def binary_functions_of_floats(session: Session) -> None:
    """Three forms, with broadcast operands and numbers."""
    for name, function in {**FLOAT_BINARY, **COMPARISONS}.items():
        for dtype in (F32, F16):
            a = _floats(session, (4, 1, 3), 0.5, 3, dtype)
            b = _floats(session, (2, 3), 0.5, 2, dtype)
            if name in COMPARISONS:
                a, b = np.round(a), np.round(b)
            kind = BOOL if name in COMPARISONS else dtype

            def reference(a, b, function=function, kind=kind):
                return function(np.float64(a), np.float64(b)).astype(kind)

            session.expect(
                session.call(name, session.viewed(a), session.viewed(b)), reference(a, b)
            )
            session.expect(session.call(name, session.tensor(a), 1.5), reference(a, 1.5))
            session.expect(session.call(name, 1.5, session.tensor(a)), reference(1.5, a))
            out = session.tensor(np.zeros((4, 2, 3), kind))
            session.call(
                f"{name}WithOutput", session.tensor(a), session.tensor(b), out, result=False
            )
            session.expect(out, reference(a, b))
            if name in COMPARISONS:
                continue
            for other in (b, np.asarray(1.25, dtype)):
                in_place = session.viewed(np.broadcast_to(a, (4, 2, 3)).copy())
                session.call(f"{name}InPlace", in_place, session.tensor(other), result=False)
                session.expect(in_place, reference(np.broadcast_to(a, (4, 2, 3)), other))
            in_place = session.tensor(a)
            session.call(f"{name}InPlace", in_place, 2, result=False)
            session.expect(in_place, reference(a, 2))


@CASES.add
def binary_functions_of_integers(session: Session) -> None:
    """Truncating division, wrapping products, and bits."""
    for name, function in {**INTEGER_BINARY, **COMPARISONS}.items():
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            a = session.rng.integers(info.min, info.max, (3, 7), dtype)
            b = session.rng.integers(1, 9, (7,)).astype(dtype)
            if info.min < 0:
                b[0] = -3
            with np.errstate(over="ignore"):
                values = function(a, b)
            expected = values if values.dtype == BOOL else values.astype(dtype)
            session.expect(session.call(name, session.tensor(a), session.tensor(b)), expected)
            if name not in COMPARISONS:
                in_place = session.viewed(a)
                session.call(f"{name}InPlace", in_place, session.tensor(b), result=False)
                session.expect(in_place, expected)


@CASES.add
def shifts_of_integers(session: Session) -> None:
    """Logical and arithmetic shifts; a shift by the width of the type or more."""
    for dtype in (I32, U32, np.int16, np.uint8):
        bits = 8 * np.dtype(dtype).itemsize
        info = np.iinfo(dtype)
        a = np.array([info.max, info.min, 77, 5, 1, 100], dtype)
        by = np.array([0, 1, 2, 3, bits - 1, bits], dtype)
        mask = (1 << bits) - 1
        signed = [int(v) - (1 << bits) if int(v) > mask >> 1 else int(v) for v in a]
        raw = [int(v) & mask for v in a]
        expected = {
            "shiftLeft": [v << int(s) for v, s in zip(raw, by)],
            "shiftRight": [v >> int(s) for v, s in zip(raw, by)],
            "shiftRightSignExtend": [v >> min(int(s), bits - 1) for v, s in zip(signed, by)],
        }
        for name, values in expected.items():
            wrapped = np.array([v & mask for v in values], np.uint64).astype(dtype)
            session.expect(session.call(name, session.tensor(a), session.tensor(by)), wrapped)
            in_place = session.tensor(a)
            session.call(f"{name}InPlace", in_place, session.tensor(by), result=False)
            session.expect(in_place, wrapped)


@CASES.add
def division_by_zero_gives_zero(session: Session) -> None:
    """Integers divided by zero do not end the process."""
    a, b = np.array([7, -8], I32), np.array([0, 0], I32)
    session.expect(session.call("div", session.tensor(a), session.tensor(b)), np.zeros(2, I32))
    session.expect(session.call("rem", session.tensor(a), session.tensor(b)), np.zeros(2, I32))


@CASES.add
def functions_of_booleans(session: Session) -> None:
    """Logic of BOOL."""
    a = np.array([[True, True], [False, False]])
    b = np.array([True, False])
    for name, values in {
        "logicalAnd": a & b,
        "logicalOr": a | b,
        "eq": a == b,
        "neq": a != b,
    }.items():
        session.expect(session.call(name, session.tensor(a), session.tensor(b)), values)
        in_place = session.tensor(a)
        session.call(f"{name}InPlace", in_place, session.tensor(b), result=False)
        session.expect(in_place, values)
    session.expect(session.call("logicalNot", session.viewed(a)), ~a)
    in_place = session.tensor(a)
    session.call("logicalNotInPlace", in_place, result=False)
    session.expect(in_place, ~a)


@CASES.add
def ternary_functions(session: Session) -> None:
    """Select and clamp in three forms."""
    for dtype in (F32, F16, I32, U32, BOOL):
        a, b = (session.rng.integers(0, 5, shape).astype(dtype) for shape in ((3, 4), (4,)))
        c = session.rng.integers(0, 2, (3, 1)).astype(BOOL)
        cases = {"select": ((a, b, c), np.where(c, a, b))}
        if dtype != BOOL:
            low, high = np.asarray(1, dtype), np.asarray(3, dtype)
            cases["clamp"] = ((a, low, high), np.clip(a, low, high))
        for name, (operands, expected) in cases.items():
            tensors = [session.viewed(operand) for operand in operands]
            session.expect(session.call(name, *tensors), expected)
            out = session.tensor(np.zeros_like(a))
            session.call(f"{name}WithOutput", *tensors, out, result=False)
            session.expect(out, expected)
            session.call(f"{name}InPlace", *tensors, result=False)
            session.expect(tensors[0], expected)
    session.expect(session.call("selectNumbers", session.tensor(c)), np.where(c, F32(1), F32(-1)))


@CASES.add
def random_shapes_broadcast_like_numpy(session: Session) -> None:
    """Three operands of random ranks, where any dimension may be one."""
    choices = session.choices
    for _ in range(60):
        shape = [choices.choice([1, 2, 3, 5]) for _ in range(choices.randint(0, 4))]
        operands = []
        for _ in range(3):
            rank = choices.randint(0, len(shape))
            own = [choices.choice([1, n]) for n in shape[len(shape) - rank :]]
            operands.append(session.rng.integers(-9, 9, own).astype(I32))
        tensors = [session.viewed(np.asarray(x)) for x in operands]
        a, b, c = operands
        result = session.call("map", tensors, "( ADD ( MUL _1 _2 ) _3 )".replace("MUL", "MULTIPLY"))
        session.expect(result, np.asarray(a * b + c, I32))


@CASES.add
def large_operands_cross_blocks(session: Session) -> None:
    """More elements than a block has, broadcast along rows and columns."""
    a = session.rng.integers(-99, 99, (37, 301)).astype(I32)
    row, column = (session.rng.integers(-99, 99, s).astype(I32) for s in ((301,), (37, 1)))
    tensors = [session.tensor(x) for x in (a, row, column)]
    result = session.call("map", tensors, "( SUBTRACT ( MULTIPLY _1 _2 ) _3 )")
    session.expect(result, a * row - column)
    half = session.rng.uniform(-2, 2, (37, 301)).astype(F16)
    row16 = half[0]
    result = session.call("add", session.tensor(half), session.tensor(row16))
    session.expect(result, half + row16, (0, 0))
    explicit = session.view(session.tensor(row[None]), "broadcast", 37, 0)
    session.expect(session.call("add", tensors[0], explicit), a + row)


@CASES.add
def expressions_of_many_operands(session: Session) -> None:
    """Six tensors, of which some are scalars or rows."""
    shapes = [(7, 5), (), (5,), (7, 1), (7, 5), (1, 5)]
    arrays = [np.asarray(session.rng.integers(-9, 9, shape), I32) for shape in shapes]
    text = "_1"
    for number in range(2, len(arrays) + 1):
        text = f"( {'ADD' if number % 2 else 'SUBTRACT'} {text} _{number} )"
    a, b, c, d, e, f = arrays
    result = session.call("map", [session.tensor(x) for x in arrays], text)
    session.expect(result, a - b + c - d + e - f)


@CASES.add
def threads_share_costly_functions(session: Session) -> None:
    """Functions of many elements, alone and one after another with the input added."""
    x = session.rng.uniform(-2, 2, 40_000).astype(F32)
    tensor = session.tensor(x)
    alone = session.call("map", [tensor], "( TANH ( SIN _1 ) )")
    session.expect(alone, np.tanh(np.sin(x)), (1e-5, 1e-6))
    chained = session.call("add", session.call("exp", session.call("tanh", tensor)), tensor)
    session.expect(chained, np.exp(np.tanh(x)) + x, (1e-5, 1e-6))


@CASES.add
def each_node_of_halves_rounds(session: Session) -> None:
    """Bits equal NumPy's, which rounds each operation, too."""
    a, b, c = (session.rng.uniform(-100, 100, 500).astype(F16) for _ in range(3))
    tensors = [session.tensor(x) for x in (a, b, c)]
    result = session.call("map", tensors, "( ADD ( MULTIPLY _1 _2 ) _3 )")
    session.expect(result, a * b + c, (0, 0))
    scaled = session.call("map", tensors[:1], "( MULTIPLY _1 #0.1 )")
    session.expect(scaled, a * F16(0.1), (0, 0))
    tiny = (a * F16(1e-4)) * F16(1e-3)
    result = session.call("mul", session.tensor(a * F16(1e-4)), 1e-3)
    session.expect(result, tiny, (0, 0))


@CASES.add
def operands_that_share_memory(session: Session) -> None:
    """In place with views of the result: all is read before it is written."""
    a = session.rng.integers(-9, 9, (4, 4)).astype(I32)
    t = session.tensor(a)
    session.call("addInPlace", t, session.view(t, "shuffle", [1, 0]), result=False)
    a = a + a.T
    session.expect(t, a)
    session.call("subInPlace", t, session.view(t, "reverse", 0), result=False)
    a = a - a[::-1]
    session.expect(t, a)
    session.call("mulInPlace", t, session.view(t, "index", 1), result=False)
    a = a * a[1]
    session.expect(t, a)
    session.call("addInPlace", t, t, result=False)
    session.expect(t, a + a)


@CASES.add
def neighbors_that_need_other_blocks(session: Session) -> None:
    """Ops of one size, which run block by block where each needs the same block of those before."""
    values = session.rng.integers(-9, 9, (2, 5000)).astype(np.int32)
    x, y = map(session.tensor, values)
    a, b = values
    chained = session.call("add", x, y)
    # The first element of all, before the others are there.
    shifted = session.call("add", chained, session.view(chained, "slice", 4999, 5000, 0))
    c = a + b
    d = c + c[-1]
    # Parts that overlap, one of which is written.
    tail = session.view(shifted, "slice", 1, 5000, 0)
    head = session.view(shifted, "slice", 0, 4999, 0)
    session.call("mulInPlace", tail, head, result=False)
    session.call("subInPlace", head, session.view(x, "slice", 1, 5000, 0), result=False)
    product = d.copy()
    product[1:] = d[1:] * d[:-1]
    product[:-1] -= a[1:]
    # What was read is written, backwards too.
    after = session.call("sub", shifted, x)
    session.call("addInPlace", x, session.view(after, "reverse", 0), result=False)
    narrow = session.call("add", x, y)
    session.call("addInPlace", narrow, x, result=False)
    e = product - a
    f = a + e[::-1]
    for tensor, expected in ((chained, c), (shifted, product), (after, e), (x, f)):
        session.expect(tensor, expected)
    session.expect(narrow, f + b + f)


@CASES.add
def expressions_with_operators(session: Session) -> None:
    """Operators make the same nodes as classes. A number takes the type of the other operand."""
    a, b = (session.rng.uniform(-3, 3, (2, 9)).astype(F32) for _ in range(2))
    b[0, 0] = a[0, 0]
    tensors = [session.tensor(a), session.tensor(b)]
    with np.errstate(divide="ignore"):
        expected = [
            a * 2 + b,
            1 - a / b,
            np.where((a > b) | (a < -1), a, -b),
            ((a >= 0.5) & (b != a)).astype(F32),
            np.maximum(a, 0.25) - np.minimum(b, 0) * np.sqrt(np.abs(a)) + np.exp(np.sin(b)),
            np.clip(a, -0.5, 0.5) * np.where(b > 0, 1, -1),
            b * a + b * b,
        ]
    for index, values in enumerate(expected):
        session.expect(session.call("mapWritten", tensors, index), values.astype(F32), (1e-5, 1e-6))
    text = "( ADD ( MULTIPLY _1 #2.0 ) _2 )"
    session.expect(session.call("deepEquals", 0, text), np.array(True))
    session.expect(session.call("deepEquals", 0, text.replace("_2", "_1")), np.array(False))
    out = session.tensor(np.zeros_like(a))
    session.call("mapWithOutput", tensors, out, text, result=False)
    session.expect(out, a * 2 + b)
    session.call("mapInPlace", tensors, "( SELECT #0 _1 ( LESS_THAN _1 _2 ) )", result=False)
    session.expect(tensors[0], np.where(a < b, F32(0), a))
    session.call("mapInPlace", tensors, "#2.5", result=False)
    session.expect(tensors[0], np.full_like(a, 2.5))


@CASES.add
def expressions_of_one_operation(session: Session) -> None:
    """Forms of `map` for an operation by its name, and for several expressions."""
    a, b = (session.rng.uniform(-3, 3, (4,)).astype(F32) for _ in range(2))
    ta, tb, one = session.tensor(a), session.tensor(b), session.tensor(np.asarray(1, F32))
    session.expect(session.call("mapUnaryOp", ta), a * a)
    session.expect(session.call("mapBinaryOp", ta, tb), a - b)
    session.expect(
        session.call("mapTernaryOp", ta, session.call("neg", one), one), np.clip(a, -1, 1)
    )
    session.expect(session.call("mapSeveral", [ta, tb]), np.concatenate([a + b, a - b]))
    session.call("mapInPlaceUnaryOp", ta, result=False)
    session.call("mapInPlaceBinaryOp", ta, tb, result=False)
    session.expect(ta, -a * b)


@CASES.add
def quarters_equal_their_formats(session: Session) -> None:
    """Rounding, subnormal and largest numbers, with scales; casts back, also from a clone."""
    formats = {143: ml_dtypes.float8_e4m3fnuz, 152: ml_dtypes.float8_e5m2fnuz}
    codes = np.arange(256, dtype=np.uint8)
    for (digits, form), scale, dtype in itertools.product(formats.items(), (0, -3, 5), (F32, F16)):
        numbers = codes.view(form).astype(F32)
        numbers = np.sort(numbers[np.isfinite(numbers)])
        # Each number, those in the middle of two, and random ones between.
        between = numbers[:-1] + session.rng.random(numbers.size - 1) * np.diff(numbers)
        given = np.concatenate([numbers, (numbers[:-1] + numbers[1:]) / 2, between])
        given = given * 2.0**scale
        given = given[np.abs(given) <= min(numbers[-1] * 2.0**scale, np.finfo(dtype).max)]
        given = given.astype(dtype)
        rounded = (given.astype(F32) * F32(2.0**-scale)).astype(form)
        if dtype is F32:
            beyond = F32(2.0**scale) * numbers[-1] * np.array([2, -2, np.inf, np.nan], F32)
            given = np.concatenate([given, beyond])
            largest = np.array([numbers[-1], -numbers[-1], np.nan, np.nan], F32)
            rounded = np.concatenate([rounded, largest.astype(form)])
        values = rounded.astype(F32) * F32(2.0**scale)
        with np.errstate(over="ignore"):
            back = values.astype(dtype)
        result, other = (session.tensor(np.zeros(given.shape, dtype)) for _ in range(2))
        found = session.call("castToQuarters", session.tensor(given), digits, scale, result, other)
        session.expect(found, rounded.view(np.uint8))
        session.expect(result, back)
        least = np.zeros(given.shape, dtype)
        least[0] = np.clip(values[:1] / 4, -57344, 57344).astype(formats[152]).astype(F32)[0] * 4
        session.expect(other, least)
    error = {"function": "castWithoutMetadata", "arguments": (session.tensor(np.zeros(2, F32)),)}
    session.expect_error("poplibs_error", "cast: quarters have a format and a scale", **error)


@CASES.add
def casts_between_all_types(session: Session) -> None:
    """Casts as in C."""
    kinds = {"float": F32, "half": F16, "int": I32, "uint": U32, "bool": BOOL, "char": np.int8}
    kinds.update(uchar=np.uint8, short=np.int16, ushort=np.uint16, long=np.int64, ulong=np.uint64)
    for dtype in kinds.values():
        values = np.array([0, 1, 2, 100, 7], dtype)
        if np.dtype(dtype).kind == "f":
            values = values + dtype(0.75)
        tensor = session.tensor(values)
        for name, to in kinds.items():
            session.expect(session.call("map", [tensor], f"( CAST {name} _1 )"), values.astype(to))


@CASES.add
def variances_in_another_type(session: Session) -> None:
    """The forms with a type of the result."""
    x = session.rng.uniform(0.5, 3, 7).astype(F32)
    result = session.call("varianceToInvStdDevOfType", session.tensor(x), 0.01, "half")
    session.expect(result, (1 / np.sqrt(x + 0.01)).astype(F16))
    half = x.astype(F16)
    epsilon = session.tensor(np.asarray(0.25, F32))
    result = session.call("invStdDevToVarianceOfType", session.tensor(half), epsilon, "float")
    session.expect(result, 1 / half.astype(F32) ** 2 - F32(0.25))


@CASES.add
def tensors_without_elements(session: Session) -> None:
    """Nothing is computed."""
    empty = session.tensor(np.zeros((0, 3), F32))
    session.expect(session.call("add", empty, empty), np.zeros((0, 3), F32))


@CASES.add
def errors_name_function_and_fault(session: Session) -> None:
    """Types, shapes, placeholders, constants and options."""
    f, h = session.tensor(np.zeros((2, 3), F32)), session.tensor(np.zeros((2, 3), F16))
    i, odd = session.tensor(np.zeros((2, 3), I32)), session.tensor(np.zeros(4, F32))
    constant = session.tensor(np.zeros((2, 3), F32), constant=True)
    twice = session.view(odd, "broadcast", 2, 0)
    poplibs = "poplibs_error"

    def error(function, *arguments, texts):
        session.expect_error(poplibs, *texts, function=function, arguments=arguments)

    error("add", f, h, texts=["popops::add: ", "ADD have the types float and half"])
    error("mulInPlace", f, i, texts=["popops::mulInPlace: ", "float and int; they have to be one"])
    error("exp", i, texts=["popops::exp: EXPONENT is not defined for elements of int"])
    error("logicalAnd", f, f, texts=["LOGICAL_AND is not defined for elements of float"])
    error("sub", f, odd, texts=["popops::sub: the shapes {2,3} and {4} cannot be broadcast"])
    error("subInPlace", odd, f, texts=["{2,3} cannot be broadcast to that of the output, {4}"])
    error("ltInPlace", f, f, texts=["the result is of bool, the output of float"])
    error("map", [f], "_2", texts=["the placeholder _2, and 1 tensors are given"])
    error("select", f, f, f, texts=["the condition of SELECT has to be of bool, not of float"])
    error("addInPlace", constant, f, texts=["the output is a constant"])
    error("addInPlace", twice, 1, texts=["has an element more than once"])
    session.expect_error(
        "invalid_option",
        "popops::add: there is no option 'unknown'",
        "enableGenerateCodelet",
        function="addWithUnknownOption",
        arguments=[f],
    )
