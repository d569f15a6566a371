"""Cases of casts, fills, scaled sums and encodings of popops."""

from __future__ import annotations

import numpy as np

from tests.support.poplar.cases import Cases
from tests.support.poplar.session import Session

CASES = Cases()

F32, F16, I32, U32 = np.float32, np.float16, np.int32, np.uint32


@CASES.add
def casts_of_all_forms(session: Session) -> None:
    """A new tensor, an output, a program and a compute set."""
    x = session.rng.uniform(-9, 9, (3, 5)).astype(F32)
    tensor = session.viewed(x)
    session.expect(session.call("cast", tensor, "half"), x.astype(F16), (0, 0))
    session.expect(session.call("cast", tensor, "float"), x, (0, 0))
    session.expect(session.call("cast", tensor, "int"), x.astype(I32))
    for function in ("castProgram", "castWithOutput"):
        out = session.viewed(np.zeros((3, 5), I32))
        session.call(function, tensor, out, result=False)
        session.expect(out, x.astype(I32))
    out = session.tensor(np.zeros((3, 5), F16))
    session.expect(session.call("castInComputeSet", tensor, out), x.astype(F16))
    session.expect(out, x.astype(F16))
    for value, kept in ((0.5, True), (1 / 3, False)):
        scalar = session.tensor(np.asarray(value, F32))
        result = session.call("checkAccuracyWhenCast", scalar, "half", 1e-6)
        session.expect(result, np.asarray(kept))


@CASES.add
def fills_of_all_forms(session: Session) -> None:
    """Whole tensors, views, and regions in compute sets."""
    for dtype in (F32, F16, I32, np.bool_, np.uint8):
        t = session.viewed(np.ones((3, 4), dtype))
        session.call("zero", t, result=False)
        session.expect(t, np.zeros((3, 4), dtype))
        session.call("fill", t, 1, result=False)
        session.expect(t, np.ones((3, 4), dtype))
    whole = np.ones((2, 3), F32)
    t = session.tensor(whole)
    session.call("zero", session.view(t, "slice", 1, 2, 1), result=False)
    whole[:, 1] = 0
    session.expect(t, whole)
    for function, values in (("zeroInComputeSet", (0, 0, 0)), ("fillInComputeSet", (1.5, 2, 3))):
        tensors = [session.tensor(np.full(5, 9, F32)) for _ in range(3)]
        session.call(function, *tensors, result=False)
        a, b, c = values
        session.expect(tensors[0], np.full(5, a, F32))
        session.expect(tensors[1], np.array([b, b, 9, b, 9], F32))
        session.expect(tensors[2], np.full(5, c, F32))


@CASES.add
def scaled_sums(session: Session) -> None:
    """Numbers and tensors as scales; halves are rounded once."""
    for kind_a, kind_b in ((F32, F32), (F16, F16), (F32, F16), (F16, F32)):
        a = session.rng.uniform(-2, 2, (3, 4)).astype(kind_a)
        b = session.rng.uniform(-2, 2, (3, 4)).astype(kind_b)
        wa, wb = a.astype(F32), b.astype(F32)
        scale, other = session.tensor(np.asarray(0.75, F32)), session.tensor(np.asarray(0.5, F16))
        tolerance = (1e-3, 1e-3) if kind_a == F16 else (1e-6, 1e-6)

        def run(expected, function, *arguments, before=(), a=a, tolerance=tolerance):
            target = session.viewed(a)
            session.call(function, *before, target, *arguments, result=False)
            session.expect(target, expected.astype(a.dtype), tolerance)

        tb = session.viewed(b)
        run(wa + F32(0.25) * wb, "scaledAddTo", tb, 0.25)
        run(wa + F32(0.75) * wb, "scaledAddTo", tb, scale)
        run(wa - F32(0.25) * wb, "scaledSubtractFrom", tb, 0.25)
        run(wa - F32(0.5) * wb, "scaledSubtractFrom", tb, other)
        run(F32(2) * wa + F32(0.25) * wb, "scaledAddToBoth", 2.0, tb, 0.25, before=[0])
        run(F32(0.75) * wa + F32(0.5) * wb, "scaledAddToBoth", scale, tb, other, before=[0])
        run(wa - F32(0.75) * wa + F32(0.5) * wb, "scaledAddToBoth", scale, tb, other, before=[1])
    a, b = (session.rng.integers(-9, 9, 6).astype(I32) for _ in range(2))
    target = session.tensor(a)
    session.call("scaledAddTo", target, session.tensor(b), 3, result=False)
    session.expect(target, a + 3 * b)


@CASES.add
def encodings(session: Session) -> None:
    """One-hot rows, numbers in a row, and scalars of rows."""
    indices = np.array([2, 0, 0xFFFFFFFF, 7, 3], U32)
    expected = np.zeros((5, 4))
    for row, index in enumerate(indices):
        if index < 4:
            expected[row, index] = 1
    for dtype in (F32, F16, I32, U32):
        encoded = session.viewed(np.full((5, 4), 9, dtype))
        session.call("encodeOneHot", session.tensor(indices), encoded, result=False)
        session.expect(encoded, expected.astype(dtype))
    on, off = session.tensor(np.asarray(5, F32)), session.tensor(np.asarray(-1, F32))
    encoded = session.tensor(np.zeros((5, 4), F32))
    session.call(
        "encodeOneHotWithValues", session.tensor(indices.astype(I32)), encoded, on, off,
        result=False,
    )  # fmt: skip
    session.expect(encoded, np.where(expected, F32(5), F32(-1)))
    for dtype in (I32, F32):
        t = session.viewed(np.zeros((2, 3), dtype))
        session.call("iota", t, -2, result=False)
        session.expect(t, np.arange(-2, 4, dtype=dtype).reshape(2, 3))
    t = session.tensor(np.zeros(4, U32))
    session.call("iotaUnsigned", t, 4294967294, result=False)
    session.expect(t, np.array([4294967294, 4294967295, 0, 1], U32))
    for dtype in (F32, F16):
        params = session.rng.uniform(-2, 2, (5, 4)).astype(dtype)
        masked = np.array([1, 3, 0, 0xFFFFFFFF, 2], U32)
        picked = [params[i, j] if j < 4 else 0 for i, j in enumerate(masked)]
        tensor, ti = session.tensor(params), session.tensor(masked)
        session.expect(session.call("selectScalarFromRows", tensor, ti), np.array(picked, dtype))
        session.call("updateScalarInRows", tensor, ti, result=False)
        for row, column in enumerate(masked):
            if column < 4:
                params[row, column] -= 1
        session.expect(tensor, params)


@CASES.add
def errors_of_writes(session: Session) -> None:
    """Shapes, types and constants."""
    f, i = session.tensor(np.zeros((2, 3), F32)), session.tensor(np.zeros(2, U32))
    constant = session.tensor(np.zeros(2, F32), constant=True)

    def error(function, *arguments, texts):
        session.expect_error("poplibs_error", *texts, function=function, arguments=arguments)

    error("castProgram", f, i, texts=["popops::cast: dst has to have the shape {2,3}, not {2}"])
    error("zero", constant, texts=["popops::zero: the tensor is a constant"])
    error("fill", constant, 1, texts=["popops::fill: the tensor is a constant"])
    error("scaledAddTo", f, i, 1, texts=["popops::scaledAddTo: B has to have the shape {2,3}"])
    error("encodeOneHot", f, f, texts=["popops::encodeOneHot: indices have to be of unsigned int"])
    error("encodeOneHot", i, constant, texts=["encoded has to have the shape {2,2}, not {2}"])
    error("selectScalarFromRows", i, i, texts=["params has to be of rank 2"])
    error("updateScalarInRows", f, f, texts=["indices have to be of unsigned int or int"])
