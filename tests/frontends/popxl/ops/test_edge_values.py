"""Values at edges that shapes and random numbers do not reach, as they are documented."""

from __future__ import annotations

import numpy as np
import popxl
from popxl import ops
from popxl.ops import var_updates

from tests.support.popxl import popxl_programs

NAN, INF = float("nan"), float("inf")


def c(*values, dtype=np.float32):
    return popxl.constant(np.array(values, dtype))


def i(*values):
    return c(*values, dtype=np.int32)


def u(*values):
    return c(*values, dtype=np.uint32)


# What is built, and the value, of the type of the result.
EDGES = {
    "clip keeps NaN": (lambda: ops.clip(c(NAN, 1, -1), 0, 0.5), [NAN, 0.5, 0], "float32"),
    "sign of NaN": (lambda: ops.sign(c(NAN, INF, -0.5)), [0, 1, -1], "float32"),
    "floor of NaN": (lambda: ops.floor(c(NAN, -0.5)), [NAN, -1], "float32"),
    "scaled by 0": (lambda: var_updates.accumulator_scale_(c(NAN, 1) + 0, 0.0), [0, 0], "float32"),
    "division": (lambda: ops.div(i(-7, 7, -7), i(2, -2, -2)), [-3, -3, 3], "int32"),
    "remainder": (lambda: i(-7, 7) % i(4, -4), [-3, 3], "int32"),
    "remainder of floats": (lambda: c(-7.5, 7.5) % 4, [-3.5, 3.5], "float32"),
    "counted": (lambda: ops.increment_mod(i(1, 2, -5), 1, 3), [2, 0, -1], "int32"),
    "counted without sign": (
        lambda: ops.increment_mod(u(1, 2, 2**32 - 2), 1, 3),
        [2, 0, 0],
        "uint32",
    ),
    "remainder without sign": (lambda: u(7, 2**32 - 1) % 4, [3, 3], "uint32"),
    "power without sign": (lambda: u(3, 2**16) ** u(2, 1), [9, 2**16], "uint32"),
    "wrapped around": (lambda: u(1, 2**32 - 1) + 2, [3, 1], "uint32"),
    "subtracted from itself": (lambda: -u(1, 0), [2**32 - 1, 0], "uint32"),
    "without sign": (lambda: ops.abs(u(2**31)), [2**31], "uint32"),
    "sum without sign": (lambda: ops.l1(u(2**31, 1)), 2**31 + 1, "uint32"),
    "middle without sign": (lambda: ops.median(u(2**31, 1, 5)), 5, "uint32"),
    "least without sign": (
        lambda: ops.topk(u(2**31, 1, 5), 2, 0, False, True)[0],
        [1, 5],
        "uint32",
    ),
    "gathered sum": (
        lambda: ops.scatter_reduce(u(2**31, 5), i(1, 1), "sum", axis_size=2),
        [0, 2**31 + 5],
        "uint32",
    ),
    "middle of integers": (lambda: ops.median(i(-(2**31), 7, 5, -1)), -1, "int32"),
    "signs of integers": (lambda: ops.sign(i(-5, 0, 3)), [-1, 0, 1], "int32"),
    "bounds of integers": (lambda: ops.clip(i(-5, 0, 30), 0, 7), [0, 0, 7], "int32"),
    "one bound of integers": (lambda: ops.clip(i(-5, 30), max=7.0), [-5, 7], "int32"),
    "integers times factors": (
        lambda: ops.scaled_add(i(1, 2), i(3, 4), 2.0, 3.0),
        [11, 16],
        "int32",
    ),
    "remainder of short integers": (lambda: c(-7, 7, dtype=np.int16) % 4, [-3, 3], "int16"),
    "to int": (lambda: ops.cast(c(-1.7, 1.7), popxl.int32), [-1, 1], "int32"),
    "to bool": (lambda: ops.cast(c(0, -0.5, NAN), popxl.bool), [False, True, True], "bool"),
    "masked": (lambda: c(1, 2)[np.array([True, False])], [1, 0], "float32"),
    "masked NaN": (lambda: c(NAN, 2)[np.array([False, True])], [0, 2], "float32"),
    "logic of numbers": (lambda: ops.logical_and(c(0.5, 0), i(1, 1)), [True, False], "bool"),
    "condition of numbers": (lambda: ops.where(i(2, 0), c(1, 1), c(3)), [1, 3], "float32"),
    "median of four": (lambda: ops.median(c(4, 1, 3, 2)), 2, "float32"),
    "median of five": (lambda: ops.median(c(4, 1, 3, 2, 5)), 3, "float32"),
    "absolute values counted": (
        lambda: ops.histogram(c(0, 1, 2, -3), [1.0, 2.0], True),
        [1, 1, 2],
        "uint32",
    ),
    "values counted": (
        lambda: ops.histogram(c(0, 1, 2, -3), [1.0, 2.0], False),
        [2, 1, 1],
        "uint32",
    ),
    "sum without elements": (
        lambda: ops.scatter_reduce(c(1, 2), i(1, 1), "sum", axis_size=2),
        [0, 3],
        "float32",
    ),
    "maximum without elements": (
        lambda: ops.scatter_reduce(c(1, 2), i(1, 1), "max", axis_size=2),
        [-INF, 2],
        "float32",
    ),
    "minimum without elements": (
        lambda: ops.scatter_reduce(i(1, 2), i(1, 1), "min", axis_size=2),
        [2**31 - 1, 1],
        "int32",
    ),
    "last of a slice": (lambda: c(1, 2, 3)[-1], 3, "float32"),
    "backwards": (lambda: c(*range(10))[9:4:-2], [9, 7, 5], "float32"),
    "bounds beyond the end": (lambda: ops.slice(c(1, 2, 3), 1, 99), [2, 3], "float32"),
    "backwards to the first": (lambda: ops.slice(c(1, 2, 3), 2, 0, -1), [3, 2], "float32"),
    "log of 0": (lambda: ops.log2(c(0, 8)), [-INF, 3], "float32"),
    "large exponents": (lambda: ops.softmax(c(1000, 1000), -1), [0.5, 0.5], "float32"),
    "log of sums of large exponents": (
        lambda: ops.logsumexp(c(1000, 1000)),
        1000 + np.log(2),
        "float32",
    ),
    "half of no probability": (
        lambda: ops.nll_loss(popxl.constant(np.float16([[0, 1]])), i(0)),
        np.float16(-np.log(6.104e-5)),
        "float16",
    ),
    "nothing counts": (lambda: ops.nll_loss(c(0.5, 0.5).reshape((1, 2)), i(0), 0), 0, "float32"),
    "one dimension in": (lambda: c(1, 2) @ c(3, 4), 11, "float32"),
    "wider product": (
        lambda: ops.matmul(
            *(popxl.constant(np.float16([[n]])) for n in (300, 300)), output_type=popxl.float32
        ),
        [[90000]],
        "float32",
    ),
}


def test_edges():
    def build():
        return {name: op() for name, (op, _, _) in EDGES.items()}

    found = popxl_programs.run(build)
    for name, (_, value, dtype) in EDGES.items():
        assert found[name].dtype == np.dtype(dtype), name
        np.testing.assert_allclose(found[name], value, rtol=1e-3, err_msg=name)
