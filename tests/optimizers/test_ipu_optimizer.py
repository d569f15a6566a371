"""The base of the optimizers, and the names that all of them have."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import optimizers
from tests.support.models import training
from tests.support.models.training import tf1

# Table 18.1 of the reference: class -> module, in `ipu` and in `ipu.optimizers`.
NAMESPACES = {
    "CrossReplicaOptimizer": "cross_replica_optimizer",
    "CrossReplicaGradientAccumulationOptimizer": "gradient_accumulation_optimizer",
    "CrossReplicaGradientAccumulationOptimizerV2": "gradient_accumulation_optimizer",
    "GradientAccumulationOptimizer": "gradient_accumulation_optimizer",
    "GradientAccumulationOptimizerV2": "gradient_accumulation_optimizer",
    "MapGradientOptimizer": "map_gradient_optimizer",
    "ShardedOptimizer": "sharded_optimizer",
}

# Arguments and defaults as the reference prints them; required ones have no "=".
_V2 = (
    "opt, num_mini_batches, offload_weight_update_variables=None, "
    "replicated_optimizer_state_sharding=False, dtype=None, name='{}'"
)
_OLD = "opt, num_mini_batches, verify_usage=True, name='{}'"
SIGNATURES = {
    "CrossReplicaGradientAccumulationOptimizer": _OLD,
    "CrossReplicaGradientAccumulationOptimizerV2": _V2,
    "CrossReplicaOptimizer": "opt, name='{}'",
    "GradientAccumulationOptimizer": _OLD,
    "GradientAccumulationOptimizerV2": _V2,
    "IpuOptimizer": "opt, name=None",
    "MapGradientOptimizer": "wrapped_optimizer, gradient_mapping_function, name='{}'",
    "ShardedOptimizer": "optimizer",
}


@pytest.mark.parametrize("name", NAMESPACES)
def test_class_is_the_same_in_all_namespaces(name: str) -> None:
    cls = getattr(optimizers, name)
    for prefix in ("tensorflow_ipu", "tensorflow.python.ipu"):
        for package in (prefix, f"{prefix}.optimizers"):
            assert getattr(importlib.import_module(f"{package}.{NAMESPACES[name]}"), name) is cls
        assert getattr(importlib.import_module(f"{prefix}.optimizers"), name) is cls
    assert name in dir(optimizers)
    assert issubclass(cls, optimizers.IpuOptimizer)
    assert issubclass(cls, tf1.train.Optimizer)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_the_reference(name: str) -> None:
    parameters = list(inspect.signature(getattr(optimizers, name)).parameters.values())
    shown = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in parameters
        # Added by releases for TensorFlow 2, at the end.
        if p.name != "reduction_method"
    ]
    assert ", ".join(shown) == SIGNATURES[name].format(name)


def test_everything_is_passed_on() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        v = training.variable("v", 2)
        step = tf1.get_variable("step", initializer=np.int32(0), use_resource=True, trainable=False)
        inner = tf1.train.MomentumOptimizer(0.1, 0.9, name="inner")
        opt = optimizers.IpuOptimizer(inner)
        pairs = opt.compute_gradients(tf.reduce_sum(v * [2.0, 3.0]), var_list=[v], gate_gradients=0)
        update = opt.apply_gradients(pairs, global_step=step, name="update")
        session.run(tf1.global_variables_initializer())
        before = session.run(v)
        session.run(update)
        np.testing.assert_allclose(session.run(v), before - [0.2, 0.3], rtol=1e-6)
        assert session.run(step) == 1
        assert update.name == "update"
        assert opt.get_name() == "inner"
        assert opt.get_slot_names() == inner.get_slot_names() == ["momentum"]
        assert opt.get_slot(v, "momentum") is inner.get_slot(v, "momentum")
        assert [slot.name for slot in opt.variables()] == [s.name for s in inner.variables()]


def test_a_wrapper_of_the_user_changes_the_update() -> None:
    class Halving(optimizers.IpuOptimizer):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            halved = [(gradient / 2, variable) for gradient, variable in grads_and_vars]
            return super().apply_gradients(halved, *args, **kwargs)

    with tf.Graph().as_default(), tf1.Session() as session:
        v = training.variable("v", 2)
        opt = Halving(tf1.train.GradientDescentOptimizer(0.1))
        update = opt.minimize(tf.reduce_sum(v * [2.0, 4.0]))
        session.run(tf1.global_variables_initializer())
        before = session.run(v)
        session.run(update)
        np.testing.assert_allclose(session.run(v), before - [0.1, 0.2], rtol=1e-6)


@pytest.mark.parametrize("opt", [None, "sgd", tf.keras.optimizers.legacy.SGD(0.1)])
def test_wraps_optimizers_of_tensorflow_1_only(opt: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected opt to be a tf\.compat\.v1\.train\.Optimizer"):
        optimizers.IpuOptimizer(opt)


def test_a_step_without_gradients_is_refused() -> None:
    with tf.Graph().as_default():
        opt = optimizers.IpuOptimizer(tf1.train.GradientDescentOptimizer(0.1))
        with pytest.raises(ValueError, match="No gradients provided"):
            opt.apply_gradients([(None, training.variable("v", 2))])
