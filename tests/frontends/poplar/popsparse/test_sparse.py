"""Sparse products, layers and formats against dense NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontends.poplar.cases import PoplarError, Run, random_array, runner

Array = np.ndarray[Any, Any]


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "popsparse/popsparse.cpp", ("popsparse", "poputil"))


def sparse(rows: int, columns: int, block: tuple[int, int]) -> tuple[Array, dict[str, Any]]:
    """Returns a matrix with about a third of its blocks, and its parts in rows."""
    height, width = block
    rng = np.random.default_rng(5)
    chosen = rng.random((rows // height, columns // width)) < 0.35
    matrix = random_array(rows, columns) * np.kron(chosen, np.ones(block, "f4"))
    offsets, indices, values = [0], [], []
    for i, row in enumerate(chosen):
        for j in np.flatnonzero(row):
            indices.append(int(j) * width)
            part = matrix[i * height : (i + 1) * height, j * width : (j + 1) * width]
            values += part.ravel().tolist()
        offsets.append(len(values))
    parts = {"values": values, "columns": indices, "offsets": offsets, "block": block}
    return matrix.astype("f4"), parts


BLOCKS = [(1, 1), (4, 2)]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("case", ["dynamicMatMul", "staticMatMul", "staticHalfMatMul"])
def test_products_equal_dense_ones(run: Run, case: str, block: tuple[int, int]) -> None:
    dtype, name = ("f2", "half") if "Half" in case else ("f4", "float")
    matrix, parts = sparse(16, 12, block)
    dense = random_array(1, 12, 40, seed=1, dtype=np.dtype(dtype).name)
    other = random_array(1, 40, 16, seed=2, dtype=np.dtype(dtype).name)
    inputs = {"dense": dense, "other": other}
    results = run(case, inputs, **parts, sizes=(16, 12, 40), type=name)
    matrix = matrix.astype(dtype).astype("f4")
    close = {"rtol": 2e-3, "atol": 5e-3} if name == "half" else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(results["out"][0], matrix @ dense[0].astype("f4"), **close)
    right = other[0].astype("f4") @ matrix
    np.testing.assert_allclose(results["transposed"][0], right.T, **close)
    np.testing.assert_allclose(results["right"][0], right, **close)


@pytest.mark.parametrize("block", BLOCKS)
def test_ratio_decides_the_capacity(run: Run, block: tuple[int, int]) -> None:
    matrix, parts = sparse(16, 12, block)
    inputs = {"dense": random_array(1, 12, 3), "other": random_array(1, 3, 16)}
    results = run("dynamicMatMul", inputs, **parts, sizes=(16, 12, 3), type="float", ratio=0.6)
    size = block[0] * block[1]
    assert results["capacity"] == np.ceil(0.6 * 16 * 12 / size) * size
    np.testing.assert_allclose(results["out"][0], matrix @ inputs["dense"][0], 1e-4, 1e-5)


@pytest.mark.parametrize("block", BLOCKS)
def test_formats_round_trip(run: Run, block: tuple[int, int]) -> None:
    results = run("formats", **sparse(16, 12, block)[1], sizes=(16, 12, 3))
    assert all(results[name] for name in ("csr", "coo", "csc", "lengths"))


@pytest.mark.parametrize("block", BLOCKS)
def test_layers_equal_dense_gradients(run: Run, block: tuple[int, int]) -> None:
    matrix, parts = sparse(16, 12, block)
    x, dy = random_array(5, 12, seed=1), random_array(5, 16, seed=2)
    indices, slices = np.array([3, 0, 3], "uint32"), random_array(3, 12, seed=3)
    inputs = {"x": x, "dy": dy, "indices": indices, "slices": slices, "scale": np.float32(0.5)}
    results = run("layer", inputs, **parts, sizes=(16, 12, 5), ratio=0.5)
    np.testing.assert_allclose(results["y"], x @ matrix.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results["dx"], dy @ matrix, rtol=1e-4, atol=1e-5)

    def values_of(dense: Array) -> Array:
        """Returns the values of a dense matrix in the order of the sparse one."""
        found = []
        for i in range(0, 16, block[0]):
            for j in range(0, 12, block[1]):
                if matrix[i, j] != 0:
                    found.append(dense[i : i + block[0], j : j + block[1]].ravel())
        return np.concatenate(found)

    expected = values_of(dy.T @ x)
    np.testing.assert_allclose(results["dw"][: len(expected)], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(results["rows"], matrix[indices])
    update = np.zeros_like(matrix)
    np.add.at(update, indices, 0.5 * slices)
    change = (results["after"] - results["before"])[: len(expected)]
    np.testing.assert_allclose(change, values_of(update), rtol=1e-4, atol=1e-5)
    assert results["splits"] == 1


ERRORS: dict[str, Any] = {
    "capacity": ({"ratio": 0.01}, "the parameters have room for"),
    "column": ({}, "a column index is 99; the matrix has 12 columns"),
    "offsets": ({"offsets": [0, 1]}, "expected 17 offsets"),
    "dense": ({"sizes": (16, 12, 3)}, r"rhs has shape \{1,4,16\}"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_faulty_matrices_are_refused(run: Run, name: str) -> None:
    changed, text = ERRORS[name]
    _, parts = sparse(16, 12, (1, 1))
    if name == "column":
        changed = {"columns": [99] * len(parts["columns"])}
    other = random_array(1, 4, 16) if name != "dense" else random_array(1, 16, 4)
    inputs = {"dense": random_array(1, 12, 3), "other": other}
    arguments = {**parts, "sizes": (16, 12, 3), "type": "float", **changed}
    with pytest.raises(PoplarError, match=text) as error:
        run("dynamicMatMul", inputs, **arguments)
    assert error.value.kind == "poplibs_error"
