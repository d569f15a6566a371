"""A network trained by PopXL, against the same in NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl.transforms import autodiff

RNG = np.random.default_rng(11)
STEPS, BATCH, CLASSES, RATE = 4, 6, 3, 0.1
DATA = RNG.normal(size=(STEPS, BATCH, 5)).astype(np.float32)
LABELS = RNG.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)
WEIGHTS = [RNG.normal(0, 0.5, size).astype(np.float32) for size in ((5, 8), (8, CLASSES))]


class Layer(popxl.Module):
    """A product, with a nonlinear function or none."""

    def __init__(self, function):
        self.function = function

    def build(self, x: popxl.Tensor, w: popxl.Tensor):
        return self.function(x @ w)


class Network:
    """Layers as graphs of their own, with their gradients and weights."""

    def __init__(self, ir, x):
        self.weights = [popxl.variable(w) for w in WEIGHTS]
        hidden = popxl.TensorSpec((BATCH, 8), popxl.float32)
        first = ir.create_graph(Layer(ops.tanh), x, self.weights[0])
        second = ir.create_graph(Layer(lambda t: ops.softmax(t, -1)), hidden, self.weights[1])
        self.graphs = [first, second]
        self.gradients = [autodiff(graph) for graph in self.graphs]

    def step(self, x, labels, weights):
        """Adds a step of training that updates the weights in place; returns the loss."""
        calls = []
        for graph, weight in zip(self.graphs, weights):
            calls.append(ops.call_with_info(graph, x, weight))
            x = calls[-1].outputs[0]
        loss = ops.nll_loss(x, labels)
        mask = ops.onehot(labels, popxl.constant(CLASSES), popxl.constant([0.0, 1.0]), -1)
        upstream = ops.negate(mask) / x / float(BATCH)
        for call, info, weight in reversed([*zip(calls, self.gradients, weights)]):
            back = ops.call_with_info(info.graph, upstream, inputs_dict=info.inputs_dict(call))
            upstream, slope = back.outputs
            var_updates.accumulate_(weight, slope, -RATE)
        return loss


def trained():
    """Losses and weights of the same in NumPy."""
    first, second = (w.astype(np.float64) for w in WEIGHTS)
    losses = []
    for x, labels in zip(DATA.astype(np.float64), LABELS):
        hidden = np.tanh(x @ first)
        logits = np.exp(hidden @ second)
        probs = logits / logits.sum(1, keepdims=True)
        losses.append(-np.log(probs[np.arange(BATCH), labels]).mean())
        slope = (probs - np.eye(CLASSES)[labels]) / BATCH
        back = slope @ second.T * (1 - hidden**2)
        second = second - RATE * hidden.T @ slope
        first = first - RATE * x.T @ back
    return losses, [first, second]


@pytest.mark.parametrize("in_loop", [False, True], ids=["a run a step", "a loop in one run"])
def test_training_equals_that_in_numpy(in_loop):
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS if in_loop else 1
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream((BATCH, 5), popxl.float32, "data")
        labels = popxl.h2d_stream((BATCH,), popxl.int32, "labels")
        target = popxl.d2h_stream((), popxl.float32, "loss")
        network = Network(ir, data.spec)

        def step(weights: list[popxl.TensorByRef]):
            with popxl.in_sequence():
                x, expected = ops.host_load(data), ops.host_load(labels)
                ops.host_store(target, network.step(x, expected, weights))

        if in_loop:
            graph = ir.create_graph(step, network.weights)
            ops.repeat(graph, STEPS, *network.weights)
        else:
            step(network.weights)
    with popxl.Session(ir, "ipu_hw") as session:
        if in_loop:
            losses = session.run({data: DATA, labels: LABELS})[target]
        else:
            runs = [session.run({data: d, labels: n}) for d, n in zip(DATA, LABELS)]
            losses = np.stack([run[target] for run in runs])
        weights = list(session.get_tensors_data(network.weights).values())
    expected_losses, expected_weights = trained()
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for weight, expected in zip(weights, expected_weights):
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)
