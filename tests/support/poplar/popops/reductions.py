"""Cases of reductions of popops."""

from __future__ import annotations

import numpy as np

from tests.support.poplar.cases import Cases
from tests.support.poplar.session import Session

CASES = Cases()


def _log_add(x, axis):
    most = x.max(axis=axis, keepdims=True)
    total = np.log(np.exp(x - most).sum(axis=axis, keepdims=True)) + most
    return total.squeeze(axis)


FLOAT_OPERATIONS = {
    "ADD": np.sum,
    "MUL": np.prod,
    "MIN": np.min,
    "MAX": np.max,
    "SQUARE_ADD": lambda x, axis: np.sum(x * x, axis=axis),
    "LOG_ADD": _log_add,
}
LOOSE = (1e-5, 1e-6)


@CASES.add
def reductions_of_random_shapes(session: Session) -> None:
    """All operations, over random dimensions of random shapes and views."""
    for _ in range(12):
        rank = session.choices.randint(1, 4)
        shape = [session.choices.randint(1, 6) for _ in range(rank)]
        dims = sorted(session.choices.sample(range(rank), session.choices.randint(0, rank)))
        axis = tuple(dims)
        for name, function in FLOAT_OPERATIONS.items():
            x = session.rng.uniform(-2, 2, shape).astype(np.float32)
            expected = function(x.astype(np.float64), axis=axis)
            tensor = session.viewed(x)
            result = session.call("reduce", tensor, dims, name)
            session.expect(result, np.asarray(expected, np.float32), LOOSE)
            half = x.astype(np.float16)
            expected = np.asarray(function(half.astype(np.float64), axis=axis), np.float16)
            session.expect(session.call("reduce", session.viewed(half), dims, name), expected)
        for dtype in (np.int32, np.uint32, np.int64, np.uint8):
            x = session.rng.integers(0, 9, shape).astype(dtype)
            for name in ("ADD", "MUL", "MIN", "MAX", "SQUARE_ADD"):
                expected = FLOAT_OPERATIONS[name](x.astype(np.int64), axis=axis).astype(dtype)
                result = session.call("reduce", session.tensor(x), dims, name)
                session.expect(result, np.asarray(expected))
        flags = session.rng.integers(0, 3, shape) > 0
        for name, function in {"LOGICAL_AND": np.all, "LOGICAL_OR": np.any}.items():
            result = session.call("reduce", session.viewed(flags), dims, name)
            session.expect(result, np.asarray(function(flags, axis=axis)))


@CASES.add
def large_reductions_are_accurate(session: Session) -> None:
    """Rows and columns of many elements, which threads share."""
    for shape, dims in (
        ((3, 50000), [1]),
        ((50000, 3), [0]),
        ((90, 7, 90), [0, 2]),
        ((70000,), [0]),
    ):
        x = session.rng.uniform(0, 1, shape).astype(np.float32)
        tensor = session.tensor(x)
        for name in ("ADD", "MAX", "SQUARE_ADD"):
            expected = FLOAT_OPERATIONS[name](x.astype(np.float64), axis=tuple(dims))
            result = session.call("reduce", tensor, dims, name)
            session.expect(result, np.asarray(expected, np.float32), (2e-6, 0))


@CASES.add
def reductions_scale_and_update(session: Session) -> None:
    """Scales, updates of the output, and results of another type."""
    x = session.rng.uniform(-2, 2, (5, 7)).astype(np.float16)
    wide = x.astype(np.float32)
    scale = session.tensor(np.asarray(0.5, np.float32))
    result = session.call("reduceToType", session.tensor(x), "float", [0], "ADD", 0, scale)
    session.expect(result, wide.sum(0) * np.float32(0.5), LOOSE)
    result = session.call("reduceToType", session.tensor(wide), "half", [1], "ADD", 0, "-")
    session.expect(result, wide.sum(1).astype(np.float16))
    start = session.rng.uniform(-2, 2, 7).astype(np.float32)
    out = session.tensor(start)
    session.call("reduceWithOutput", session.tensor(wide), out, [0], "ADD", 1, scale, result=False)
    session.expect(out, start + wide.sum(0) * np.float32(0.5), LOOSE)
    session.call(
        "reduceWithOutput", session.tensor(wide), out, [0], "SQUARE_ADD", 0, "-", result=False
    )
    session.expect(out, (wide * wide).sum(0), LOOSE)
    session.call(
        "reduceWithOutput", session.tensor(wide), out, [0], "LOG_ADD", 1, scale, result=False
    )
    expected = np.logaddexp((wide * wide).sum(0), _log_add(wide, (0,)) + np.float32(0.5))
    session.expect(out, expected, LOOSE)
    integers = session.rng.integers(-9, 9, (4, 3)).astype(np.int32)
    out = session.tensor(np.array([1, 2, 3], np.int32))
    three = session.tensor(np.asarray(3, np.int32))
    session.call(
        "reduceWithOutput", session.tensor(integers), out, [0], "ADD", 1, three, result=False
    )
    session.expect(out, np.array([1, 2, 3], np.int32) + 3 * integers.sum(0, dtype=np.int32))


@CASES.add
def reductions_of_other_forms(session: Session) -> None:
    """In compute sets, several at once, and of tensors without elements."""
    x = session.rng.uniform(-2, 2, (5, 7)).astype(np.float32)
    tensor = session.tensor(x)
    result = session.call("reduceInComputeSets", tensor, [0], "ADD")
    session.expect(result, x.sum(0), LOOSE)
    result = session.call("reduceMany", tensor, tensor)
    session.expect(result, np.concatenate([x.sum(0), x.max(1)]), LOOSE)
    empty = session.tensor(np.zeros((0, 3), np.float32))
    session.expect(session.call("reduce", empty, [0], "ADD"), np.zeros(3, np.float32))


@CASES.add
def predicates_of_tensors(session: Session) -> None:
    """allTrue, hasNaN and hasNaNOrInf."""
    for values in ([True, True], [True, False]):
        flags = session.tensor(np.array([values]))
        session.expect(session.call("allTrue", flags), np.asarray(all(values)))
    for special in (1.0, np.nan, np.inf):
        x = session.tensor(np.array([[1, special]], np.float32))
        session.expect(session.call("hasNaN", x), np.asarray(np.isnan(special)))
        session.expect(session.call("hasNaNOrInf", x), np.asarray(not np.isfinite(special)))


@CASES.add
def errors_of_reductions(session: Session) -> None:
    """Types, dimensions, outputs and updates."""
    f, b = session.tensor(np.zeros((2, 3), np.float32)), session.tensor(np.zeros((2, 3), np.bool_))
    i = session.tensor(np.zeros((2, 3), np.int32))

    def error(function, *arguments, texts):
        session.expect_error("poplibs_error", *texts, function=function, arguments=arguments)

    error("reduce", f, [2], "ADD", texts=["popops::reduce: dimension 2 does not exist", "{2,3}"])
    error("reduce", f, [1, 1], "ADD", texts=["dimension 1 is named twice"])
    error("reduce", b, [0], "ADD", texts=["ADD is not defined for elements of bool"])
    error("reduce", f, [0], "LOGICAL_OR", texts=["LOGICAL_OR is not defined for elements of float"])
    error("reduce", i, [0], "LOG_ADD", texts=["LOG_ADD is not defined for elements of int"])
    error(
        "reduceToType", i, "float", [0], "ADD", 0, "-", texts=["of int cannot be reduced to float"]
    )
    error("reduceToType", f, "float", [0], "MAX", 0, f, texts=["have a scale", "not MAX"])
    error("reduceToType", f, "float", [0], "ADD", 0, f, texts=["the scale has to be one element"])
    error("reduceToType", f, "float", [0], "ADD", 1, "-", texts=["use reduceWithOutput"])
    error(
        "reduceWithOutput", f, f, [0], "ADD", 0, "-",
        texts=["popops::reduceWithOutput: the output has to have the shape {3}, not {2,3}"],
    )  # fmt: skip
