"""The ops of a GELU and of its gradient, as TensorFlow writes them, are one vertex."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.cost import FREE
from tensorflow_ipu.planner.program import fused_maps, gelu
from tensorflow_ipu.planner.program.resources import costs_of
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder

SHAPE = (512, 512)


class Gelu:
    """A GELU in float32 of a product in float16, with its ops by name."""

    def __init__(self, form="tanh", shape=SHAPE):
        self.make = make = Builder()
        self.shape = shape
        self.half, self.one, self.factor = (make.constant(name, ()) for name in "abc")
        weight = make.variable("w", shape, "float16")
        self.product = make.op("MatMul", [weight, weight], shape, "float16")
        self.x = make.op("Cast", [self.product], shape)
        if form != "halved last":
            self.halved = self.op("Mul", self.half, self.x)
        if form == "erf":
            self.inner = self.op("RealDiv", self.x, self.factor)
            self.outer = self.op("Erf", self.inner)
        else:
            self.cube = self.op("Mul", self.factor, self.op("Pow", self.x, self.factor))
            self.inner = self.op("Mul", self.factor, self.op("AddV2", self.x, self.cube))
            self.outer = self.op("Tanh", self.inner)
        self.sum = self.op("AddV2", self.one, self.outer)
        if form == "halved last":
            self.result = self.op("Mul", self.op("Mul", self.x, self.sum), self.half)
        else:
            self.result = self.op("Mul", self.halved, self.sum)
        self.narrow = make.op("Cast", [self.result], shape, "float16")
        make.op("MatMul", [self.narrow, weight], shape, "float16")

    def op(self, op_type, *inputs, dtype="float32", **rest):
        return self.make.op(op_type, inputs, self.shape, dtype, **rest)

    def gradient(self):
        """Adds the ops of TensorFlow's gradient, and an unrelated op."""

        def op(op_type, *inputs, dtype="float32"):
            return self.op(op_type, *inputs, dtype=dtype, phase="backward")

        upstream = op("Cast", op("MatMul", self.narrow, self.narrow, dtype="float16"))
        by_half = op("Mul", op("Mul", upstream, self.sum), self.half)
        inner = op("TanhGrad", self.outer, op("Mul", upstream, self.halved))
        inner = op("Mul", inner, self.factor)
        square = op("Mul", op("Pow", self.x, self.factor), self.factor)
        by_cube = op("Mul", op("Mul", inner, self.factor), square)
        total = op("Cast", op("AddN", by_half, inner, by_cube), dtype="float16")
        op("AddN", total, self.product, dtype="float16")
        return self


def types(workload):
    return {
        found.vertex: sorted(workload.ops[index].type for index in found.ops)
        for found in gelu.find(workload)
    }


@pytest.mark.parametrize("form", ["tanh", "halved last"])
def test_the_tanh_form_is_one_vertex(form):
    workload = Gelu(form).make.workload()
    expected = ["AddV2", "AddV2", "Cast", "Cast", *["Mul"] * 4, "Pow", "Tanh"]
    assert types(workload) == {gelu.GELU: expected}
    assert len(gelu.find(workload)) == 1


def test_the_erf_form_is_one_vertex():
    workload = Gelu("erf").make.workload()
    assert types(workload) == {gelu.GELU: ["AddV2", "Cast", "Cast", "Erf", "Mul", "Mul", "RealDiv"]}


def test_the_gradient_is_one_vertex_of_its_own():
    workload = Gelu().gradient().make.workload()
    found = types(workload)
    assert set(found) == {gelu.GELU, gelu.GELU_GRADIENT}
    assert found[gelu.GELU_GRADIENT] == sorted(
        ["AddN", "Cast", "Cast", "Pow", "TanhGrad", *["Mul"] * 7]
    )


def test_its_last_op_has_cost_of_vertex():
    workload = Gelu().gradient().make.workload()
    costs = costs_of(workload, Settings(BOW))
    for found in gelu.find(workload):
        assert found.type.dtype == "float16"
        assert all(costs[index] is FREE for index in found.ops[:-1])
        # 5 cycles for each 4 elements, on 6 workers in turns; 30 cycles of each of these besides.
        elements = 512 * 512 / BOW.tiles
        assert costs[found.ops[-1]].compute == pytest.approx(elements * 5 / 4, abs=500)
        assert found.ops[-1] in fused_maps.find(workload).ops


@pytest.mark.parametrize(
    "change", [{"stage": 1}, {"phase": "backward"}, {"runs": 2}, {"ipu": None}], ids=str
)
def test_ops_that_are_not_run_together_are_none(change):
    workload = Gelu().make.workload()
    (found,) = gelu.find(workload)
    tanh = next(i for i in found.ops if workload.ops[i].type == "Tanh")
    ops = list(workload.ops)
    ops[tanh] = dataclasses.replace(ops[tanh], **change)
    assert not gelu.find(dataclasses.replace(workload, ops=tuple(ops)))


def test_a_tanh_of_anything_else_is_none():
    make = Builder()
    one, weight = make.constant("one", ()), make.variable("w", SHAPE)
    product = make.op("MatMul", [weight, weight], SHAPE)
    other = make.op("MatMul", [weight, product], SHAPE)
    for inner in (product, make.op("Mul", [one, product], SHAPE)):
        activation = make.op("Tanh", [inner], SHAPE)
        make.op("Mul", [make.op("AddV2", [one, activation], SHAPE), other], SHAPE)
    assert gelu.find(make.workload()) == ()
