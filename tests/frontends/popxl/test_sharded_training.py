"""Adam with its state sharded over replicas, compared with Adam in NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import collectives
from popxl.transforms import autodiff

RATE, BETAS, STEPS = 0.1, (0.9, 0.99), 4
START = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def loss(x, w):
    return ops.sum(ops.tanh(x @ w) * ops.tanh(x @ w))


def train(replicas, data):
    """Trains with shards of the weights and of the state of Adam; returns the weights."""
    ir = popxl.Ir(replicas)
    group = ir.replica_grouping()
    with ir.main_graph, popxl.in_sequence():
        weight, shard = popxl.replica_sharded_variable(START)
        zeros = np.zeros_like(START)
        first, second = (popxl.replica_sharded_variable(zeros)[1] for _ in range(2))
        step = popxl.variable(0.0)
        stream = popxl.h2d_stream(data.shape[2:], popxl.float32)
        x = ops.host_load(stream)
        w = collectives.replicated_all_gather(shard, group=group)
        assert w.shape == START.shape
        graph = ir.create_graph(loss, x, w)
        info = autodiff(graph, grads_required=[graph.inputs[1]])
        forward = ops.call_with_info(graph, x, w)
        one = popxl.constant(1.0)
        (gradient,) = ops.call(info.graph, one, inputs_dict=info.inputs_dict(forward))
        own = collectives.replicated_reduce_scatter(gradient, "mean", group, True)
        ops.var_updates.accumulate_moving_average_(first, own, BETAS[0])
        ops.var_updates.accumulate_moving_average_square_(second, own, BETAS[1])
        betas = [popxl.constant(beta) for beta in BETAS]
        change = ops.var_updates.adam_updater(
            first, second, time_step=step, beta1=betas[0], beta2=betas[1]
        )
        ops.scaled_add_(shard, change, b=-RATE)
    with popxl.Session(ir, "ipu_hw") as session:
        for batch in data:
            session.run({stream: batch})
    return weight.data


@pytest.mark.parametrize("replicas", [2, 4])
def test_sharded_adam_equals_adam(replicas):
    data = np.random.default_rng(1).normal(size=(STEPS, replicas, 6, 5)).astype(np.float32)
    w, m, v = (array.astype(np.float64) for array in (START, START * 0, START * 0))
    for step, batches in enumerate(data, 1):
        gradients = []
        for x in batches:
            y = np.tanh(x @ w)
            gradients.append(x.T @ (2 * y * (1 - y**2)))
        gradient = np.mean(gradients, 0)
        m = BETAS[0] * m + (1 - BETAS[0]) * gradient
        v = BETAS[1] * v + (1 - BETAS[1]) * gradient**2
        corrected = m / (1 - BETAS[0] ** step), v / (1 - BETAS[1] ** step)
        w -= RATE * corrected[0] / (np.sqrt(corrected[1]) + 1e-7)
    np.testing.assert_allclose(train(replicas, data), w, rtol=1e-5, atol=1e-5)
