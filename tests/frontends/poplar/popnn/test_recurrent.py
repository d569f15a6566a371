"""LSTM and GRU layers and their gradients against TensorFlow's differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import Arrays, PoplarError, Run, random_array, runner

STEPS, BATCH, INPUT, HIDDEN = SIZES = (4, 3, 5, 6)


@pytest.fixture
def run_layer(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "popnn/recurrent.cpp", ("popnn", "popops", "poplin", "poputil"))


def inputs_of(units: int, *bias: int, full: bool, dtype: str = "float32") -> Arrays:
    shapes = {
        "x": (STEPS, BATCH, INPUT),
        "h": (BATCH, HIDDEN),
        "w": (units, INPUT, HIDDEN),
        "u": (units, HIDDEN, HIDDEN),
        "b": (units, *bias, HIDDEN),
        "dy": (STEPS, BATCH, HIDDEN) if full else (BATCH, HIDDEN),
    }
    named = enumerate(shapes.items())
    return {name: random_array(*shape, seed=i, dtype=dtype) for i, (name, shape) in named}


def check(results: Arrays, expected: dict[str, Any], tolerance: float = 1e-4) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, tolerance, tolerance, err_msg=name)


def lstm(inputs: Arrays, order: tuple[int, ...], full: bool) -> dict[str, Any]:
    """Returns values and gradients; `order` has the slots of the units in their default order."""
    names = ("x", "h", "c", "w", "u", "b")
    given = [tf.constant(inputs[name].astype("f8")) for name in names]
    with tf.GradientTape() as tape:
        tape.watch(given)
        x, h, state, w, u, b = given
        outputs = []
        for t in range(STEPS):
            z = [x[t] @ w[slot] + h @ u[slot] + b[slot] for slot in order]
            forget, add, out = (tf.sigmoid(z[i]) for i in (0, 1, 3))
            state = forget * state + add * tf.tanh(z[2])
            h = out * tf.tanh(state)
            outputs.append(h)
        y = tf.stack(outputs) if full else h
        target = sum(
            tf.reduce_sum(value * inputs[name].astype("f8"))
            for value, name in ((y, "dy"), (h, "dh"), (state, "dc"))
        )
    gradients = tape.gradient(target, given)
    return {"y": y, "state": state, **dict(zip([f"d{n}" for n in names], gradients, strict=True))}


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("reordered", [False, True])
def test_lstm_equals_tensorflow(run_layer: Run, full: bool, reordered: bool) -> None:
    inputs = inputs_of(4, full=full)
    inputs |= {
        name: random_array(BATCH, HIDDEN, seed=i) for i, name in enumerate(("c", "dh", "dc"))
    }
    flags = {"full": full, "reordered": reordered, "apart": reordered}
    results = run_layer("lstm", inputs, sizes=SIZES, type="float", **flags)
    check(results, lstm(inputs, (2, 1, 3, 0) if reordered else (0, 1, 2, 3), full))
    assert results["flops"] == 2 * STEPS * BATCH * 4 * HIDDEN * (INPUT + HIDDEN)
    assert results["other_flops"] == 2 * results["flops"]


def test_lstm_starts_from_zeros_in_half(run_layer: Run) -> None:
    inputs = inputs_of(4, full=True, dtype="float16")
    zeros = np.zeros((BATCH, HIDDEN), "float16")
    inputs |= {"h": zeros, "c": zeros, "dh": zeros, "dc": zeros}
    expected = lstm(inputs, (0, 1, 2, 3), full=True)
    given = {name: value for name, value in inputs.items() if name not in ("h", "c")}
    results = run_layer("lstm", given, sizes=SIZES, type="half", full=True)
    assert results["y"].dtype == np.float16
    check(results, {name: expected[name] for name in ("y", "state", "dx", "dw")}, 2e-2)


def gru(inputs: Arrays, reset_after: bool, full: bool) -> dict[str, Any]:
    """Returns values and gradients of a GRU, with attention if there are scores."""
    names = ["x", "h", "w", "u", "b", *(["scores"] if "scores" in inputs else [])]
    given = {name: tf.constant(inputs[name].astype("f8")) for name in names}
    with tf.GradientTape() as tape:
        tape.watch(list(given.values()))
        h, outputs = given["h"], []
        for t in range(STEPS):
            bias = given["b"] if not reset_after else given["b"][:, 0]
            z = [given["x"][t] @ given["w"][i] + bias[i] for i in range(3)]
            extra = given["b"][:, 1] if reset_after else tf.zeros((3, HIDDEN), tf.float64)
            reset, update = (tf.sigmoid(z[i] + h @ given["u"][i] + extra[i]) for i in (0, 1))
            if reset_after:
                candidate = tf.tanh(z[2] + reset * (h @ given["u"][2] + extra[2]))
            else:
                candidate = tf.tanh(z[2] + (reset * h) @ given["u"][2])
            if "scores" in given:
                update *= 1 - given["scores"][:, t, np.newaxis]
            h = update * h + (1 - update) * candidate
            outputs.append(h)
        y = tf.stack(outputs) if full else h
        target = tf.reduce_sum(y * inputs["dy"].astype("f8"))
    gradients = tape.gradient(target, given)
    return {"y": y, **{f"d{name}": value for name, value in gradients.items()}}


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("attention", [False, True])
def test_gru_equals_tensorflow(
    run_layer: Run, full: bool, reset_after: bool, attention: bool
) -> None:
    inputs = inputs_of(3, *([2] if reset_after else []), full=full)
    if attention:
        inputs["scores"] = np.random.default_rng(9).random((BATCH, STEPS)).astype("f4")
    flags = {"full": full, "reset_after": reset_after, "apart": full}
    results = run_layer("gru", inputs, sizes=SIZES, type="float", **flags)
    check(results, gru(inputs, reset_after, full))
    assert results["flops"] == 2 * STEPS * BATCH * 3 * HIDDEN * (INPUT + HIDDEN)
    assert results["other_flops"] == 2 * results["flops"]


def test_layers_of_users_have_tensors(run_layer: Run) -> None:
    results = run_layer("tensors")
    assert results["shapes"]
    assert results["multiple"]
    assert results["steps"] == 6
    assert not results["varies"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [None, [3], [2, 4, 0]])
def test_loop_runs_its_body_for_each_step(
    run_layer: Run, reverse: bool, lengths: list[int] | None
) -> None:
    x = random_array(STEPS, BATCH, HIDDEN)
    scale = random_array(STEPS, BATCH, HIDDEN, seed=1)
    first = random_array(1, BATCH, HIDDEN, seed=2)
    inputs = {"x": x, "scale": scale, "h": first}
    if lengths is not None:
        inputs["steps"] = np.array(lengths, "u4")
    results = run_layer("loop", inputs, reverse=reverse)
    lasts = np.broadcast_to(STEPS if lengths is None else lengths, BATCH)
    h = first[0].copy()
    total = h.copy()
    begin = STEPS - 1 if reverse else 0
    for counter in range(STEPS):
        step = begin - counter if reverse else counter
        has_step = (step < lasts)[:, np.newaxis]
        new = np.tanh(h + x[step])
        interim = results["interim"].reshape(STEPS, 2, BATCH, HIDDEN)[step]
        np.testing.assert_allclose(interim[0], new * scale[step], 1e-5, 1e-6)
        np.testing.assert_allclose(interim[1], new + scale[step], 1e-5, 1e-6)
        h, total = np.where(has_step, new, h), np.where(has_step, total + new, total)
        np.testing.assert_allclose(results["states"][step], h, 1e-5, 1e-6)
        place = 10 * counter + 100 * begin + step
        each = lengths is not None and len(lengths) > 1
        expected = np.where(has_step, place, -1) if each else np.full((BATCH, 1), place)
        np.testing.assert_array_equal(results["places"][step], expected.repeat(HIDDEN, 1))
    np.testing.assert_allclose(results["h"][0], h, 1e-5, 1e-6)
    np.testing.assert_allclose(results["total"][0], total, 1e-5, 1e-6)
    np.testing.assert_allclose(results["sum"], x.sum(0), 1e-5, 1e-6)
    np.testing.assert_array_equal(results["shifted"], np.concatenate([first, x[:-1]]))


def test_plain_cells_equal_tensorflow(run_layer: Run) -> None:
    inputs = {
        "x": random_array(STEPS, BATCH, INPUT),
        "h": random_array(BATCH, HIDDEN, seed=1),
        "w": random_array(INPUT, HIDDEN, seed=2),
        "u": random_array(HIDDEN, HIDDEN, seed=3),
        "b": random_array(HIDDEN, seed=4),
        "dy": random_array(STEPS, BATCH, HIDDEN, seed=5),
    }
    results = run_layer("plain", inputs, sizes=SIZES, type="float")
    given = [tf.constant(inputs[name].astype("f8")) for name in ("x", "w", "u", "b")]
    with tf.GradientTape() as tape:
        tape.watch(given)
        x, w, u, b = given
        h, outputs = tf.constant(inputs["h"].astype("f8")), []
        for t in range(STEPS):
            h = tf.tanh(x[t] @ w + h @ u + b)
            outputs.append(h)
        y = tf.stack(outputs)
        target = tf.reduce_sum(y * inputs["dy"].astype("f8"))
    dx, dw, du, db = tape.gradient(target, given)
    check(results, {"y": y, "y_iterated": y, "dx": dx, "dw": dw, "du": du, "db": db})
    check(results, {"dx_first": dx[0], "dw_steps": dw, "du_steps": du, "db_steps": db})
    assert results["flops"] == 2 * STEPS * BATCH * HIDDEN * (INPUT + HIDDEN)
    assert results["backward_flops"] == 2 * STEPS * BATCH * HIDDEN * HIDDEN
    assert results["update_flops"] == results["flops"]


def test_loops_without_their_steps_are_refused(run_layer: Run) -> None:
    x = random_array(STEPS, BATCH, HIDDEN)
    short = random_array(STEPS - 1, BATCH, HIDDEN)
    inputs = {"x": x, "scale": short, "h": random_array(1, BATCH, HIDDEN)}
    with pytest.raises(PoplarError, match=r"popnn::rnn::Rnn .*multiple of the 4 time steps"):
        run_layer("loop", inputs)
