"""Block-sparse products and softmax against dense NumPy and TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import PoplarError, Run, random_array, runner

Array = np.ndarray[Any, Any]
SIZES, BLOCK = (8, 12, 6), (4, 6, 2)
INNER, COLUMNS = SIZES[1:]


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "popsparse/popsparse.cpp", ("popsparse", "poputil"))


def mask_of(groups: int, rows: int, columns: int, block: tuple[int, int]) -> tuple[Array, Array]:
    """Returns which blocks are there, and which elements."""
    shape = (groups, rows // block[0], columns // block[1])
    blocks = np.random.default_rng(3).random(shape) < 0.6
    blocks[:, 0, 0] = True
    return blocks, np.kron(blocks, np.ones((1, *block), bool)).astype(bool)


def blocks_of(matrices: Array, blocks: Array, block: tuple[int, int]) -> Array:
    """Returns the blocks {number, area} of matrices {groups, rows, columns}."""
    height, width = block
    found = [
        matrices[g, i * height : (i + 1) * height, j * width : (j + 1) * width].ravel()
        for g, i, j in np.argwhere(blocks)
    ]
    return np.stack(found)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_equal_dense_ones(run: Run, groups: int, transposed: bool, dtype: str) -> None:
    shape, block = (INNER, COLUMNS), (BLOCK[1], BLOCK[2])
    if transposed:
        shape, block = shape[::-1], block[::-1]
    blocks, elements = mask_of(groups, *shape, block)
    stored = random_array(groups, *shape, dtype=dtype) * elements
    lhs = random_array(groups, *SIZES[:2], seed=1, dtype=dtype)
    results = run(
        "denseTimesBlocks",
        {"lhs": lhs if groups > 1 else lhs[0], "rhs": blocks_of(stored, blocks, block)},
        sizes=SIZES,
        block=BLOCK,
        present=blocks.ravel().astype(int).tolist(),
        groups=groups,
        transposed=transposed,
        type="float" if dtype == "float32" else "half",
    )
    right = stored.transpose(0, 2, 1) if transposed else stored
    expected = lhs.astype("f4") @ right.astype("f4")
    tolerance = 1e-5 if dtype == "float32" else 5e-3
    assert results["out"].shape == (expected.shape if groups > 1 else expected.shape[1:])
    for name in ("out", "rows"):
        found = results[name].reshape(expected.shape)
        np.testing.assert_allclose(found, expected, tolerance, tolerance)


@pytest.mark.parametrize("zeroed", ["none", "upper", "lower"])
@pytest.mark.parametrize("groups", [1, 2])
def test_softmax_of_computed_blocks_equals_tensorflow(run: Run, zeroed: str, groups: int) -> None:
    block = (BLOCK[0], BLOCK[2])
    blocks, elements = mask_of(groups, SIZES[0], COLUMNS, block)
    lhs = random_array(groups, *SIZES[:2], seed=1)
    rhs = random_array(groups, *SIZES[1:], seed=2)
    dy = random_array(groups, SIZES[0], COLUMNS, seed=4)
    given = (lhs, rhs) if groups > 1 else (lhs[0], rhs[0])
    results = run(
        "blocksOfProduct",
        {"lhs": given[0], "rhs": given[1], "dy": blocks_of(dy, blocks, block)},
        sizes=SIZES,
        block=BLOCK,
        present=blocks.ravel().astype(int).tolist(),
        groups=groups,
        zeroed=zeroed,
    )
    there = {"none": elements, "upper": np.tril(elements), "lower": np.triu(elements)}[zeroed]
    product = lhs @ rhs * there
    logits = tf.constant(product)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        softmax = tf.nn.softmax(tf.where(there, logits, -1e9)) * there
    expected = {
        "product": product,
        "softmax": softmax.numpy(),
        "in_place": softmax.numpy(),
        "gradient": tape.gradient(softmax, logits, dy).numpy(),
    }
    for name, value in expected.items():
        wanted = blocks_of(value, blocks, block)
        np.testing.assert_allclose(results[name], wanted, 1e-4, 1e-5, err_msg=name)


def test_wrong_masks_are_refused(run: Run) -> None:
    inputs = {"lhs": random_array(*SIZES[:2]), "rhs": random_array(1, 12)}
    values = {"sizes": SIZES, "groups": 1, "transposed": False, "type": "float"}
    with pytest.raises(PoplarError, match="expected 6, one for each block"):
        run("denseTimesBlocks", inputs, block=BLOCK, present=[1], **values)
    with pytest.raises(PoplarError, match="12 x 6 has blocks of 5 x 2"):
        run("denseTimesBlocks", inputs, block=(4, 5, 2), present=[1] * 6, **values)
