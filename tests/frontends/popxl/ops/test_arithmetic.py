"""Sums with factors, clipping, counters, printing, and updates of optimizers."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops
from popxl.ops import var_updates
from popxl.transforms import autodiff

from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case, check

X = np.array([-2.0, -1.0, 0.5, 1.0, 4.0], np.float32)
M, V, W = X / 4, X * X, X + 1

CASES = [
    Case(
        "clip",
        lambda t: ops.clip(t, -1, 1),
        lambda t: tf.clip_by_value(t, -1, 1),
        [X],
        gradients=lambda t, g: [g * [0, 0, 1, 0, 0]],
    ),
    Case("increment", lambda t: ops.increment_mod(t, 1, 3), lambda t: np.fmod(X + 1, 3), [X], []),
    Case(
        "scaled",
        lambda x, y: ops.scaled_add(x, y, 2.0, popxl.constant(3.0)),
        lambda x, y: 2 * x + 3 * tf.cast(y, tf.float32),
        [X, np.arange(5, dtype=np.int32)],
        [],
    ),
    Case("square", ops.lamb_square, lambda t: tf.reduce_sum(t * t), [X], [], None, np.float32),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 1e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


def test_updates_of_optimizers_compute_their_formulas():
    def build(m, v, w):
        with popxl.in_sequence():
            step = popxl.variable(3.0)
            adam = var_updates.adam_updater(m, v, w, step, 0.1, 0.9, 0.99, 1e-3)
            counted = step + 0
            plain = var_updates.lamb_updater(m, v)
            adamax = var_updates.adamax_updater(m, v, time_step=step, epsilon=1.0)
            norms = [ops.lamb_square(w), ops.lamb_square(adam)]
            variable = w + 0
            var_updates.adam_var_update(variable, adam, *norms, 0.5, 1.0)
            return {
                **{"adam": adam, "step": counted, "plain": plain, "adamax": adamax},
                "variable": variable + 0,
            }

    adam = M / (1 - 0.9**4) / (np.sqrt(V / (1 - 0.99**4)) + 1e-3) + 0.1 * W
    ratio = min(np.linalg.norm(W), 1) / np.linalg.norm(adam)
    expected = {
        "adam": adam,
        "step": np.float32(4),
        "plain": M / (np.sqrt(V) + 1e-7),
        "adamax": M / (1 - 0.9**5) / (V + 1),
        "variable": W - 0.5 * ratio * adam,
    }
    arrays = {name: np.asarray(array, np.float32) for name, array in expected.items()}
    popxl_programs.check(build, [M, V, W], arrays, 1e-4)


def test_updates_take_tensors_of_both_float_types():
    """Corrections are of float32; a moment is divided in the type of the second one."""
    half, single = np.float16, np.float32

    def build(m, v, w, w16):
        with popxl.in_sequence():
            betas = {"beta1": 0.5, "beta2": 0.75}
            step = popxl.variable(0, popxl.uint32)
            decayed = var_updates.adam_updater(m, v, w, step, 0.5, **betas)
            results = {
                "adam": decayed,
                "adam without weight": var_updates.adam_updater(m, v, w16, step, 0.0, **betas),
                "step": step + 0,
                "adamax": var_updates.adamax_updater(m, v, w16, step, 0.25, 0.5),
                "lamb": var_updates.lamb_updater(m, v, w16, weight_decay=1.0),
            }
            for name, norms, limit in (
                ("no weight", (0.0, 4.0), 10.0),
                ("no update", (4.0, 0.0), 10.0),
                ("limit of 0", (4.0, 1.0), popxl.constant(0.0)),
                ("limited", (64.0, 4.0), 3.0),
                ("not limited", (4.0, 64.0), 3.0),
            ):
                variable = w + 0
                scalars = [popxl.constant(norm) for norm in norms]
                var_updates.adam_var_update(variable, m, *scalars, 0.5, limit)
                results[name] = variable + 0
            added = w + 0
            var_updates.accumulate_(added, m, 2.0)
            results["accumulated"] = added + 0
            squared = w16 + 0
            var_updates.accumulate_square_(squared, w, popxl.constant(0.5))
            results["squared"] = squared + 0
        return results

    m, v, w = M.astype(half), V + 1, W

    def updated(step, beta1, beta2):
        return (m / (1 - beta1**step)) / np.sqrt(v / (1 - beta2**step))

    ratios = {"no weight": 1, "no update": 1, "limit of 0": 1, "limited": 1.5, "not limited": 0.25}
    expected = {
        "adam": single(updated(1, 0.5, 0.75) + 0.5 * w),
        "adam without weight": half(updated(2, 0.5, 0.75)),
        "step": np.uint32(2),
        "adamax": half(m / (1 - 0.5**3) / v + 0.25 * w),
        "lamb": half(m / np.sqrt(v) + w),
        **{name: single(w - 0.5 * ratios[name] * m) for name in ratios},
        "accumulated": single(w + 2 * m.astype(single)),
        "squared": half(w + w * w / 2),
    }
    arrays = {name: np.asarray(array) for name, array in expected.items()}
    popxl_programs.check(build, [m, v, w, w.astype(half)], arrays, 4e-3)


def test_tensors_are_printed_each_time_with_requested_gradients(capfd):
    def shown(t):
        return ops.print_tensor(t + 1, "value", print_gradient=True)

    def build(x):
        graph = popxl.gir().create_graph(shown, x)
        info = autodiff(graph)
        (out,) = ops.repeat(graph, 2, x)
        with popxl.in_sequence():
            (gradient,) = ops.call(info.graph, x)
        return {"out": out, "gradient": gradient}

    found = popxl_programs.run(build, [np.float32([1, 2])])
    assert (found["out"].tolist(), found["gradient"].tolist()) == ([3, 4], [1, 2])
    printed = capfd.readouterr().err
    values = [line.split(":")[0].strip() for line in printed.splitlines() if "value" in line]
    assert values == ["value", "value", "value_gradient"]


def test_numbers_are_printed_as_asked_for(capfd):
    numbers = np.float32([[0.5, -1.25, 1000], [2, 3.75, 4]])
    layouts = {
        "plain": {},
        "signs": {"separator": ",", "open_bracket": "(", "close_bracket": ")"},
        "digits": {"digits": 5},
        "scientific": {"float_format": "scientific", "digits": 3},
        "fixed": {"float_format": "fixed", "digits": 6},
        "none": {"float_format": "none", "digits": 3},
        "edges": {"summarise_threshold": 5, "edge_items": 1},
        "narrow": {"max_line_width": 14, "digits": 6},
    }

    def build(x):
        with popxl.in_sequence():
            for title, options in layouts.items():
                ops.print_tensor(x, title, **options)
            ops.print_tensor(ops.cast(x * 4.0, popxl.int32), "integers", separator=";")
            return {"small": ops.print_tensor(x * 1e-9, "fixed small", float_format="fixed")}

    popxl_programs.run(build, [numbers])
    printed = capfd.readouterr().err
    expected = {
        "plain": "[[   0.5000   -1.2500 1000.0000]\n [   2.0000    3.7500    4.0000]]",
        "signs": "((   0.5000,  -1.2500,1000.0000),\n (   2.0000,   3.7500,   4.0000))",
        "digits": "[[   0.5   -1.2 1000.0]\n [   2.0    3.8    4.0]]",
        "scientific": "[[ 5.00e-01 -1.25e+00  1.00e+03]\n [ 2.00e+00  3.75e+00  4.00e+00]]",
        "fixed": "[[   0.50   -1.25 1000.00]\n [   2.00    3.75    4.00]]",
        "none": "[[  0.5 -1.25 1e+03]\n [    2  3.75     4]]",
        "edges": "[[   0.5000 ... 1000.0000]\n [   2.0000 ...    4.0000]]",
        "narrow": "[[   0.50\n    -1.25\n  1000.00]\n [   2.00\n     3.75\n     4.00]]",
        "integers": "[[   2;  -5;4000];\n [   8;  15;  16]]",
        "fixed small": "[[ 0.0000000 -0.0000000  0.0000010]\n [ 0.0000000  0.0000000  0.0000000]]",
    }
    assert "".join(f"{title}: {text}\n" for title, text in expected.items()) == printed


def test_wrong_arguments_are_refused():
    error = popxl.errors.popart_exception
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        with pytest.raises(ValueError, match="must be 1 character exactly"):
            ops.print_tensor(x, separator=", ")
        with pytest.raises(KeyError):
            ops.print_tensor(x, float_format="hex")
        for name in ("summarise_threshold", "edge_items", "max_line_width", "digits"):
            with pytest.raises(ValueError, match=f"{name} must be an integer >= "):
                ops.print_tensor(x, **{name: -1})
        with pytest.raises(error, match="does not broadcast"):
            ops.scaled_add(x, x[:1])
        with pytest.raises(ValueError, match="Weight decay requires weight"):
            var_updates.adam_updater(x, x, weight_decay=0.1)
        with pytest.raises(ValueError, match="Bias correction requires both beta1 and beta2"):
            var_updates.adam_updater(x, x, time_step=x[0], beta1=0.9)
        with pytest.raises(ValueError, match="AdaMax requires time_step"):
            var_updates.adamax_updater(x, x)
