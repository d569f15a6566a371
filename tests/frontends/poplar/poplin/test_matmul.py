"""Products of matrices against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.frontends.poplar.cases import PoplarError, Run, random_array, runner


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "poplin/poplin.cpp", ("poplin", "poputil"))


@pytest.mark.parametrize("transposes", ["", "a", "b", "ab"])
def test_products_equal_numpy(run: Run, transposes: str) -> None:
    a, b = random_array(19, 70), random_array(70, 33, seed=1)
    inputs = {
        "a": a.T.copy() if "a" in transposes else a,
        "b": b.T.copy() if "b" in transposes else b,
    }
    flags = {"transpose_a": "a" in transposes, "transpose_b": "b" in transposes}
    out = run("matMul", inputs, **flags)["out"]
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


def test_large_products_use_both_cores(run: Run) -> None:
    a, b = random_array(300, 64), random_array(64, 17, seed=1)
    np.testing.assert_allclose(run("matMul", {"a": a, "b": b})["out"], a @ b, rtol=1e-4, atol=1e-4)


def test_half_products_are_rounded_once(run: Run) -> None:
    a, b = random_array(5, 100, dtype="float16"), random_array(100, 7, seed=1, dtype="float16")
    exact = a.astype("float32") @ b.astype("float32")
    out = run("matMul", {"a": a, "b": b})["out"]
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, exact.astype("float16"), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        run("matMul", {"a": a, "b": b}, type="float")["out"], exact, rtol=1e-4
    )


@pytest.mark.parametrize("transpose", [False, True])
def test_grouped_products_equal_numpy(run: Run, transpose: bool) -> None:
    a, b = random_array(3, 4, 5), random_array(3, 5, 6, seed=1)
    given = b.transpose(0, 2, 1).copy() if transpose else b
    out = run("matMulGrouped", {"a": a, "b": given}, transpose_b=transpose)["out"]
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [(), (3,)])
@pytest.mark.parametrize("scaled", [False, True])
def test_accumulated_products_add_to_c(run: Run, groups: tuple[int, ...], scaled: bool) -> None:
    a, b = random_array(*groups, 4, 5), random_array(*groups, 5, 6, seed=1)
    c = random_array(*groups, 4, 6, seed=2)
    inputs = {"a": a, "b": b, "c": c}
    factor = {"scale": np.float32(-0.5)} if scaled else {"k": -0.5}
    out = run("matMulAcc", inputs, **factor)["out"]
    np.testing.assert_allclose(out, c - 0.5 * (a @ b), rtol=1e-5, atol=1e-5)


def test_created_operands_are_spread(run: Run) -> None:
    a, b = random_array(64, 32), random_array(32, 64, seed=1)
    results = run("created", {"a": a, "b": b}, a_shape=(64, 32), b_shape=(32, 64))
    np.testing.assert_allclose(results["out"], a @ b, rtol=1e-5, atol=1e-5)
    assert results["tiles"] == 128


def test_created_groups_multiply_halves(run: Run) -> None:
    a, b = random_array(2, 4, 3, dtype="float16"), random_array(2, 3, 5, seed=1, dtype="float16")
    out = run("created", {"a": a, "b": b}, a_shape=(2, 4, 3), b_shape=(2, 3, 5))["out"]
    np.testing.assert_allclose(out, a.astype("f4") @ b.astype("f4"), rtol=1e-5, atol=1e-6)


def test_plans_report_shapes(run: Run) -> None:
    assert run("plans", option="fullyConnectedPass", option_value="TRAINING_WU")["good"]


ERRORS = {
    "shapes": ({"a": (2, 3), "b": (4, 5)}, {}, "poplibs_error", "received A {2,3} and B {4,5}"),
    "rank": ({"a": (2, 3), "b": (1, 3, 5)}, {}, "poplibs_error", "Use matMulGrouped for groups"),
    "option": (
        {"a": (2, 3), "b": (3, 5)},
        {"option": "partialsTypes", "option_value": "half"},
        "invalid_option",
        "poplin::matMul has no option 'partialsTypes'",
    ),
    "value": (
        {"a": (2, 3), "b": (3, 5)},
        {"option": "partialsType", "option_value": "double"},
        "invalid_option",
        "expected one of 'half', 'float'",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_shapes_and_options(run: Run, name: str) -> None:
    shapes, values, kind, text = ERRORS[name]
    with pytest.raises(PoplarError, match="poplin::matMul") as error:
        run("matMul", {key: random_array(*shape) for key, shape in shapes.items()}, **values)
    assert error.value.kind == kind
    assert text in str(error.value)


def test_integer_operands_are_refused(run: Run) -> None:
    numbers = np.ones((2, 2), "int32")
    with pytest.raises(PoplarError, match=r"poplin.cpp:\d+\): A is of type int"):
        run("matMul", {"a": numbers, "b": numbers})
