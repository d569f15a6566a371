"""Recomputation without a pipeline, by hand."""

from __future__ import annotations

import pytest

from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import FREE
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tests.support.workloads import Builder

SHAPE = (64, 1024)
TENSOR = 4 * 64 * 1024


@pytest.fixture(autouse=True)
def free(monkeypatch):
    """Ops that need nothing but their operands and results."""
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)


def convolutions(layers, cheap="Relu"):
    """Layers of convolution, normalisation and non-linearity, forward and back."""
    make = Builder()
    weight = make.variable("w", (1,))
    value = make.op("IpuInfeedDequeue", [], SHAPE, name="in")
    kept = []
    for i in range(layers):
        x = make.op("Conv2D", [value, weight], SHAPE, name=f"{i}/conv")
        z = make.op("FusedBatchNormV3", [x, weight], SHAPE, name=f"{i}/norm")
        y = make.op(cheap, [z], SHAPE, name=f"{i}/{cheap}")
        kept.append((value, x, y))
        value = y
    g = value
    for i, (before, x, y) in reversed(list(enumerate(kept))):
        scope = f"gradients/{i}"
        g = make.op("ReluGrad", [g, y], SHAPE, name=f"{scope}/relu")
        g = make.op("FusedBatchNormGradV3", [g, x], SHAPE, name=f"{scope}/norm")
        step = make.op("Conv2DBackpropFilter", [before, g], (1,), name=f"{scope}/filter")
        make.op("ResourceApplyGradientDescent", [weight, step], name=f"{scope}/update")
        g = make.op("Conv2DBackpropInput", [weight, g], SHAPE, name=f"{scope}/input")
    return make.workload()


def live(workload, recompute):
    """Live tensors, as a multiple of one, by op."""
    (found,) = Planner(workload).memory(Settings(recompute=recompute))
    return {
        workload.ops[op].name: round(n / TENSOR, 2)
        for op, n in zip(found.live_ops, found.live_bytes.tolist())
    }


def test_results_of_cheap_ops_are_made_again():
    workload = convolutions(6)
    kept, again = live(workload, recompute=False), live(workload, recompute=True)
    # Kept: the input, and of each layer the results of the convolution and of Relu. At the end of
    # the last layer's forward pass that is all of them.
    assert kept["5/Relu"] == 1 + 2 * 6
    # Again: the results of Relu are made from those of the convolutions, by way of normalisation.
    # Only the last one is there, as its gradient comes at once.
    assert again["5/Relu"] == 1 + 6 + 1
    # In the middle of the backward pass there are the input, three results of convolutions, the
    # gradient, and of the three results of Relu the one that is needed now.
    assert kept["gradients/3/filter"] == 1 + 3 + 1 + 3
    assert again["gradients/3/filter"] == 1 + 3 + 1 + 1


def test_expensive_results_are_kept():
    workload = convolutions(4, cheap="MatMul")
    assert live(workload, recompute=True) == live(workload, recompute=False)


def test_it_needs_what_it_is_made_from():
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], SHAPE, name="in")
    half = make.op("Tile", [x], (2, *SHAPE), name="large")
    y = make.op("Exp", [half], (2, *SHAPE), name="exp")
    make.op("Max", [y], (), name="loss")
    g = make.op("Mul", [y, y], (2, *SHAPE), name="gradients/mul")
    make.op("Max", [g], (), name="gradients/max")
    workload = make.workload()
    # `large` is gone by then, and making it again is not cheap.
    assert live(workload, recompute=True) == live(workload, recompute=False)
