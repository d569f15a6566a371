"""Reductions over the IPUs of a replica: values, gradients, places and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import collectives
from popxl.transforms import autodiff

from tests.support.popxl import popxl_programs

X, Y = np.float32([1, -2]), np.float32([3, 5])
FORMS = {
    "plain": (collectives.all_reduce, True, True),
    "inputs": (collectives.all_reduce_identical_inputs, False, True),
    "grads": (collectives.all_reduce_identical_grad_inputs, True, False),
}


def test_values_gradients_and_places():
    def build(x, y):
        found = {}
        for name, (reduce, _, _) in FORMS.items():

            def body(x, y, reduce=reduce):
                with popxl.ipu(1):
                    y = ops.ipu_copy(y, 1, 0)
                outputs = reduce([x, y], [0, 1])
                assert [t.ipu for t in outputs] == [0, 1]
                return [outputs[0], outputs[1].copy_to_ipu(0)]

            graph = popxl.gcg().ir.create_graph(body, x, y)
            info = autodiff(graph)
            forward = ops.call_with_info(graph, x, y)
            starts = [popxl.constant(np.float32([i, 10 * i])) for i in (1, 2)]
            ins = info.inputs_dict(forward)
            grads = ops.call(info.graph, *starts, inputs_dict=ins)
            found |= {f"{name}{i}": t for i, t in enumerate([*forward.outputs[:2], *grads])}
        return found

    found = popxl_programs.run(build, [X, Y])
    for name, (_, sums, sums_gradients) in FORMS.items():
        starts = np.float32([[1, 10], [2, 20]])
        expected = [X + Y] * 2 if sums else [X, Y]
        expected += [starts.sum(0)] * 2 if sums_gradients else list(starts)
        for i, wanted in enumerate(expected):
            np.testing.assert_array_equal(found[f"{name}{i}"], wanted, err_msg=f"{name}{i}")


def test_other_reductions():
    def build(x, y):
        found = {op: collectives.all_reduce([x, y], [0, 1], op)[0] for op in ("max", "mean")}
        return found | {"squares": collectives.all_reduce([x, y], [0, 1], "square_add")[0]}

    expected = {"max": np.maximum(X, Y), "mean": (X + Y) / 2, "squares": X**2 + Y**2}
    popxl_programs.check(build, [X, Y], expected)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda x, y: collectives.all_reduce([x, y]), ValueError, "automatically infer"),
        (lambda x, y: collectives.all_reduce([x, y], [0]), ValueError, "as many IPUs"),
        (lambda x, y: collectives.all_reduce([x, y], [0, 1], "sub"), ValueError, "Not a valid op"),
        (
            lambda x, y: collectives.all_reduce([x, y[:1]], [0, 1]),
            popxl.errors.popart_exception,
            "one shape and type",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(X), popxl.variable(Y))


def test_only_sums_are_differentiated():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        graph = ir.create_graph(lambda x, y: collectives.all_reduce([x, y], [0, 1], "max"), x, x)
        with pytest.raises(popxl.errors.popart_exception, match="does not have a valid grad op"):
            autodiff(graph)
