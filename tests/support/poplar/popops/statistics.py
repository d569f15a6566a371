"""Cases of histograms, runs of rows, splines, images and rings of popops."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.interpolate import BSpline

from tests.support.poplar.cases import Cases
from tests.support.poplar.session import Session

CASES = Cases()

F32, F16, I32, U32 = np.float32, np.float16, np.int32, np.uint32


@CASES.add
def histograms(session: Session) -> None:
    """Counts between levels, of elements or of their magnitudes."""
    for dtype in (F32, F16):
        x = session.rng.integers(-9, 9, (5, 40)).astype(dtype)
        levels = np.array([-3, 0, 0.5, 4], dtype)
        tensor, tl = session.viewed(x), session.tensor(levels)
        for absolute in (0, 1):
            values = np.abs(x) if absolute else x
            expected = np.bincount(np.digitize(values.ravel(), levels), minlength=5).astype(U32)
            session.expect(session.call("histogram", tensor, tl, absolute), expected)
        out = session.tensor(np.arange(5, dtype=F32))
        session.call("histogramWithOutput", tensor, tl, out, result=False)
        counts = np.bincount(np.digitize(x.ravel(), levels), minlength=5)
        session.expect(out, (np.arange(5) + counts).astype(F32))


@CASES.add
def runs_of_rows(session: Session) -> None:
    """Runs within both tensors; the rest of the output is kept or becomes zeros."""
    x = session.rng.integers(1, 99, (7, 3)).astype(F32)
    n, begin, to = ([2, 3, 1], [5, 0, 4], [1, 4, 0])
    numbers = [session.tensor(np.array(values, U32)) for values in (n, begin, to)]
    for zeros in (0, 1):
        expected = np.zeros((8, 3), F32) if zeros else np.full((8, 3), -1, F32)
        out = session.viewed(np.full((8, 3), -1, F32))
        session.call("sequenceSlice", session.viewed(x), out, *numbers, zeros, result=False)
        for count, source, target in zip(n, begin, to):
            expected[target : target + count] = x[source : source + count]
        session.expect(out, expected)


@CASES.add
def bases_and_weights_of_splines(session: Session) -> None:
    """Products of SciPy's uniform B-splines, and products with weights."""
    for degree, open_spline in itertools.product((1, 2, 3), (0, 1)):
        sizes = np.array([6, 5], I32)
        pseudo = session.rng.uniform(0, 0.99, (4, 2)).astype(F32)
        count = (degree + 1) ** 2
        basis, index = np.ones((4, count)), np.zeros((4, count), I32)
        spline = BSpline.basis_element(range(degree + 2), extrapolate=False)
        for e, s in itertools.product(range(4), range(count)):
            digits = (s % (degree + 1), s // (degree + 1))
            for d, k in enumerate(digits):
                at = pseudo[e, d] * (sizes[d] - degree * open_spline)
                basis[e, s] *= spline(at - np.floor(at) + degree - k)
                stride = 1 if d == 0 else sizes[0]
                index[e, s] += (int(at) + k) % sizes[d] * stride
        results = [session.tensor(np.zeros((4, count), t)) for t in (F32, I32)]
        arguments = [session.tensor(y) for y in (pseudo, sizes, np.full(2, open_spline, np.uint8))]
        session.call("splineBasis", *arguments, *results, degree, result=False)
        session.expect(results[0], basis.astype(F32), (1e-4, 1e-5))
        session.expect(results[1], index)
    features = session.rng.uniform(-1, 1, (4, 3)).astype(F32)
    weight = session.rng.uniform(-1, 1, (30, 3, 2)).astype(F32)
    expected = np.einsum("ei,esio,es->eo", features, weight[index], basis)
    result = session.call(
        "splineWeighting", session.tensor(features), session.tensor(weight), *results
    )
    session.expect(result, expected.astype(F32), (1e-4, 1e-5))


@CASES.add
def images_and_tensors_of_the_host(session: Session) -> None:
    """Channels are scaled and padded; rings and rows."""
    image = session.rng.integers(0, 255, (2, 4, 3)).astype(np.uint8)
    offsets, scales = np.array([0.4, 0.5, 0.6], F32), np.array([2, 3, 4], F32)
    for dtype in (F32, F16):
        arguments = (session.tensor(offsets.astype(dtype)), session.tensor(scales.astype(dtype)))
        result = session.call("normaliseImage", session.tensor(image), 1 / 255, *arguments)
        scaled = (image * F32(1 / 255) - offsets.astype(dtype)) * scales
        expected = np.pad(scaled, [(0, 0), (0, 0), (0, 1)]).astype(dtype)
        session.expect(result, expected, (2e-3, 2e-3) if dtype == F16 else (1e-5, 1e-5))
    x = session.rng.integers(0, 99, (5, 2, 2)).astype(F32)
    tensors = [session.tensor(y) for y in x]
    session.expect(session.call("CircBuf", tensors), x[[4, 3, 2]])
    result = session.call("createHostSliceableTensor", [4, 8])  # on one tile: the next one is 3
    session.expect(result, np.arange(3, 7, dtype=U32))
