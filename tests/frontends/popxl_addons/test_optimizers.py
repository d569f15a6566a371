"""AdamW against its formulas in NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons.optimizers import AdamOptimizerStep

RNG = np.random.default_rng(6)
STEPS = 3
GRADS = RNG.normal(size=(STEPS, 3, 2)).astype(np.float32)
W = RNG.normal(size=(3, 2)).astype(np.float32)


def updated(tensors=(), norm=None, dtype=np.float32, **options):
    """Returns the weight after each step, and the state; some options are given as tensors."""
    ir = popxl.Ir()
    with ir.main_graph:
        weight = popxl.variable(W.astype(dtype))
        stream = popxl.h2d_stream(W.shape, weight.dtype)
        grad = ops.host_load(stream)
        for name in tensors:
            options[name] = popxl.constant(np.float32(options[name]))
        if norm is not None:
            options["global_norm"] = popxl.constant(np.float32(norm))
        factories, step = AdamOptimizerStep().create_graph(weight, grad, **options)
        state = factories.init()
        inputs = {
            inner: options[inner.name]
            for inner in step.graph.inputs
            if isinstance(options.get(inner.name), popxl.Tensor)
        }
        step.bind(state).call(weight, grad, args=inputs)
    found = []
    with popxl.Session(ir, "ipu_hw") as session:
        for values in GRADS.astype(dtype):
            session.run({stream: values})
            found.append(session.get_tensor_data(weight).copy())
    return found, state


def adamw(lr, b1=0.9, b2=0.999, eps=1e-5, decay=0.01, scale=1.0, corrects=True):
    w, m, v = W.astype(np.float64), 0.0, 0.0
    found = []
    for t, g in enumerate(GRADS.astype(np.float64) * scale, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        mc, vc = (m / (1 - b1**t), v / (1 - b2**t)) if corrects else (m, v)
        w = w - lr * (mc / (np.sqrt(vc) + eps) + decay * w)
        found.append(w)
    return found


ALL = {"lr": 0.1, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1}
FORMULA = {"b1": 0.8, "b2": 0.9, "eps": 1e-3, "decay": 0.1}


@pytest.mark.parametrize(
    ("options", "formula"),
    [
        ({}, {}),
        (ALL, FORMULA),
        ({**ALL, "tensors": list(ALL)}, FORMULA),
        ({**ALL, "bias_correction": False}, {**FORMULA, "corrects": False}),
        ({"weight_decay": 0.0, "bias_correction": False}, {"decay": 0.0, "corrects": False}),
        ({"loss_scaling": 4.0}, {"scale": 0.25}),
        ({"loss_scaling": 4.0, "tensors": ["loss_scaling", "lr"]}, {"scale": 0.25}),
        ({"norm": 8.0, "global_norm_max": 2.0}, {"scale": 0.25}),
        ({"norm": 8.0, "global_norm_max": 2.0, "loss_scaling": 2.0}, {"scale": 0.125}),
        ({"norm": 8.0, "global_norm_max": 2.0, "tensors": ["global_norm_max"]}, {"scale": 0.25}),
        ({"norm": 1.0, "global_norm_max": 2.0}, {}),
    ],
    ids=[
        *("defaults", "all", "all tensors", "no correction", "no decay", "scaled loss"),
        *("tensor scales loss", "large norm", "large norm, scaled loss", "tensor limits norm"),
        "small norm",
    ],
)
def test_updates_equal_the_formula(options, formula):
    options = {"lr": 0.1, **options}
    found, state = updated(first_order_dtype=popxl.float32, **options)
    # 1 - beta2 has few digits in float32.
    np.testing.assert_allclose(found, adamw(0.1, **formula), rtol=2e-4, atol=2e-5)
    has_step = options.get("bias_correction", True)
    assert state.keys() == ["first_order", "second_order", "step"][: 2 + has_step]


def test_weights_and_gradients_may_be_of_float16():
    found, state = updated(lr=0.1, dtype=np.float16, loss_scaling=2.0)
    assert found[0].dtype == np.float16 and state.second_order.dtype is popxl.float32
    np.testing.assert_allclose(found, adamw(0.1, scale=0.5), rtol=1e-2, atol=3e-3)


@pytest.mark.parametrize("replicas", [2, 4])
def test_a_sharded_weight_has_sharded_moments(replicas):
    ir = popxl.Ir(replicas)
    with ir.main_graph:
        weight, shard = popxl.replica_sharded_variable(W, popxl.float32, "w")
        stream = popxl.h2d_stream(W.shape, popxl.float32)
        grad = ops.collectives.replica_sharded_slice(ops.host_load(stream))
        factories, step = AdamOptimizerStep().create_graph(shard, grad, lr=0.1)
        assert factories.first_order.meta_shape == W.shape
        assert factories.step.meta_shape is None
        step.bind(factories.init()).call(shard, grad)
    with popxl.Session(ir, "ipu_hw") as session:
        for values in GRADS:
            session.run({stream: np.stack([values] * replicas)})
        found = session.get_tensor_data(weight)
    np.testing.assert_allclose(found, adamw(0.1)[-1], rtol=5e-3, atol=2e-3)


def test_first_moment_is_of_float16_unless_changed():
    found, state = updated(lr=0.1)
    assert state.first_order.dtype is popxl.float16 and state.second_order.dtype is popxl.float32
    # Moments are rounded, and betas are not: 0.9 is 0.8999 in float16.
    np.testing.assert_allclose(found, adamw(0.1), rtol=1e-3, atol=2e-4)


def test_a_norm_needs_its_limit():
    with pytest.raises(ValueError, match="global_norm_max is required"):
        updated(lr=0.1, norm=1.0)


def test_one_graph_updates_variables_of_one_shape():
    with popxl.Ir().main_graph as main:
        weights = [popxl.variable(W), popxl.variable(W)]
        factories, step = AdamOptimizerStep().create_graph(weights[0], weights[0].spec, lr=0.1)
        states = addons.NamedTensors.from_dict({i: factories.init(f"w{i}") for i in range(2)})
        grad = popxl.constant(GRADS[0])
        for i, weight in enumerate(weights):
            step.bind(states[i]).call(weight, grad)
        assert len(main.called_graphs) == 1 and states[1].step.name == "w1.step"
