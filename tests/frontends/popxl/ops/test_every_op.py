"""All ops together: each has a test of its values and gradient, and those in place are aliases."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops
from popxl.ops import var_updates

from tests.support.checkout.repository import ROOT
from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case

FOLDER = Path(__file__).parent
# Where ops are tested that are no function of values, or whose gradient is none of a function.
ELSEWHERE = {
    "ops/test_every_op.py": (
        *("add_ detach_ exp_ flatten_ gelu_ geluerf_ increment_mod_ relu_ scaled_add_").split(),
        *("slice_ swish_ dynamic_update_").split(),
        *(f"accumulate_{of}" for of in ("", "mean_", "moving_average_", "square_")),
        *("accumulate_moving_average_square_ accumulator_scale_ accumulator_zero_").split(),
        *("copy_var_update_ sparse_accumulate_").split(),
    ),
    "ops/test_calls.py": (
        *("call", "call_with_info", "conditional", "conditional_with_info"),
        *("repeat", "repeat_with_info", "host_load", "host_store"),
    ),
    "ops/test_float8.py": (
        *("pow2scale_cast_to_fp8", "pow2scale_cast_from_fp8"),
        *("matmul_pow2scaled", "conv_pow2scaled", "conv_transpose_pow2scaled"),
    ),
    "ops/test_arithmetic.py": (
        *("print_tensor", "adam_updater", "adamax_updater", "lamb_updater", "adam_var_update"),
    ),
    "ops/test_random.py": (
        *("dropout", "shaped_dropout", "random_normal", "random_uniform", "split_random_seed"),
    ),
    "ops/collectives/test_replicated.py": (
        *("replicated_all_gather", "replicated_all_reduce", "replicated_all_reduce_"),
        *("replicated_reduce_scatter", "replica_sharded_slice", "replicated_slice"),
        "replicated_all_reduce_with_grad",
    ),
    "ops/collectives/test_within_replica.py": (
        *("all_reduce", "all_reduce_identical_inputs", "all_reduce_identical_grad_inputs"),
    ),
    "test_remote_variables.py": ("remote_load", "remote_load_", "remote_store"),
    "refusals/test_ops.py": ("remote_code_load",),
}
# Ops without a gradient: autodiff ends there, or refuses the graph (refusals/test_control.py).
WITHOUT_GRADIENT = set(
    "argmax argmin batch_norm_inference ceil equal floor greater histogram increment_mod isfinite "
    "isinf isnan lamb_square logical_and logical_not logical_or nll_loss_with_softmax_grad "
    "scaled_add sign detach".split()
)


def _names():
    """Returns all functions by name."""
    modules = (ops, ops.collectives, ops.var_updates)
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and not value.__module__.endswith(".kinds")
    }


def _cases():
    """Yields the cases of all families."""
    for path in sorted(FOLDER.rglob("test_*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, list):
                yield from (item for item in value if isinstance(item, Case))


def _called(case, codes):
    """Returns the names of the ops that a case makes."""
    found = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code in codes:
            found.update(codes[frame.f_code])

    ir = popxl.Ir()
    with ir.main_graph:
        tensors = [popxl.variable(array) for array in case.arrays(np.float32)]
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            ir.create_graph(lambda *inputs: case.build(*inputs), *tensors)
        finally:
            sys.setprofile(before)
    return found


def test_each_op_has_value_and_gradient_test():
    functions = _names()
    codes = {}
    for name, function in functions.items():
        codes.setdefault(function.__code__, set()).add(name)
    values, gradients = set(), set()
    for case in _cases():
        called = _called(case, codes)
        values |= called
        gradients |= called if case.positions() else set()
    elsewhere = set()
    for file, names in ELSEWHERE.items():
        text = (FOLDER.parent / file).read_text(encoding="utf-8")
        absent = [name for name in names if f".{name}(" not in text and f".{name}," not in text]
        assert absent == [], file
        for name in names:
            elsewhere |= codes[functions[name].__code__]
    assert set(functions) - values - elsewhere == set()
    assert values - gradients - elsewhere == WITHOUT_GRADIENT - elsewhere


X = np.float32([[-2, -0.5, 0.25], [0.5, 1, 3]])
ROWS = np.float32([[1, 2, 3], [4, 5, 6]])


def _sparse(t, x):
    return var_updates.sparse_accumulate_(t, x, popxl.constant([1, 1]), 0, 2.0)


def _part(t, x):
    index = popxl.constant([1], popxl.uint32)
    return ops.dynamic_update_(t, index, x[:1], [0], [1], True)


# What an op makes of X, with ROWS beside it.
IN_PLACE = {
    "add_": (ops.add_, X + ROWS),
    "iadd": (lambda t, x: t.__iadd__(x), X + ROWS),
    "exp_": (lambda t, x: ops.exp_(t), np.exp(X)),
    "gelu_": (lambda t, x: ops.gelu_(t), tf.nn.gelu(X, True).numpy()),
    "geluerf_": (lambda t, x: ops.geluerf_(t), tf.nn.gelu(X).numpy()),
    "relu_": (lambda t, x: ops.relu_(t), np.maximum(X, 0)),
    "swish_": (lambda t, x: ops.swish_(t), X / (1 + np.exp(-X))),
    "increment_mod_": (lambda t, x: ops.increment_mod_(t, 1.5, 2), np.fmod(X + 1.5, 2)),
    "scaled_add_": (lambda t, x: ops.scaled_add_(t, x, 0.5, 2.0), X / 2 + 2 * ROWS),
    "dynamic_update_": (_part, np.stack([X[0], ROWS[0]])),
    "detach_": (lambda t, x: ops.detach_(t), X),
    "reshape_": (lambda t, x: ops.reshape_(t, (3, 2)), X.reshape(3, 2)),
    "flatten_": (lambda t, x: ops.flatten_(t), X.reshape(-1)),
    "transpose_": (lambda t, x: ops.transpose_(t, (1, 0)), X.T),
    "slice_": (lambda t, x: ops.slice_(t, [0, 2], [2, 0], [1, -1]), X[:, 2:0:-1]),
    "concat_": (lambda t, x: ops.concat_([t, x], 1), np.concatenate([X, ROWS], 1)),
    "accumulate_": (lambda t, x: var_updates.accumulate_(t, x, 0.5), X + ROWS / 2),
    "accumulate_square_": (
        lambda t, x: var_updates.accumulate_square_(t, x, 0.5),
        X + ROWS * ROWS / 2,
    ),
    "accumulate_mean_": (
        lambda t, x: var_updates.accumulate_mean_(t, x, 3),
        0.75 * X + 0.25 * ROWS,
    ),
    "accumulate_moving_average_": (
        lambda t, x: var_updates.accumulate_moving_average_(t, x, 0.75),
        0.75 * X + 0.25 * ROWS,
    ),
    "accumulate_moving_average_square_": (
        lambda t, x: var_updates.accumulate_moving_average_square_(t, x, 0.75),
        0.75 * X + 0.25 * ROWS * ROWS,
    ),
    "accumulator_scale_": (lambda t, x: var_updates.accumulator_scale_(t, 3.0), 3 * X),
    "accumulator_zero_": (lambda t, x: var_updates.accumulator_zero_(t), 0 * X),
    "copy_var_update_": (var_updates.copy_var_update_, ROWS),
    "sparse_accumulate_": (_sparse, X + [[0, 0, 0], 2 * ROWS.sum(0)]),
}
VIEWS = {"detach_", "reshape_", "flatten_", "transpose_", "slice_", "concat_"}


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 1e-2)])
def test_in_place_ops_return_alias_of_target(dtype, tolerance):
    def build(*tensors):
        results = {}
        with popxl.in_sequence():
            for (name, (op, _)), t in zip(IN_PLACE.items(), tensors):
                other = popxl.variable(ROWS.astype(dtype))
                out = op(t, other)
                results[f"{name}, returned"] = out + 0
                results[f"{name}, written"] = t + 0
                # What is written into the one is read from the other.
                t += popxl.constant(1, t.dtype)
                results[f"{name}, alias"] = out + 0
        return results

    expected = {}
    for name, (_, result) in IN_PLACE.items():
        expected[f"{name}, returned"] = result
        expected[f"{name}, written"] = X if name in VIEWS else result
        added = np.repeat([[1, 0]], 3, 1) if name == "concat_" else 1
        expected[f"{name}, alias"] = result + added
    arrays = {name: np.asarray(array, dtype) for name, array in expected.items()}
    inputs = [X.astype(dtype)] * len(IN_PLACE)
    popxl_programs.check(build, inputs, arrays, tolerance)


def test_each_op_in_place_is_in_the_table():
    elsewhere = {"remote_load_", "replicated_all_reduce_"}
    assert {name for name in _names() if name.endswith("_")} == (set(IN_PLACE) | elsewhere) - {
        "iadd"
    }
