"""Errors of gradient-accumulation optimizers, at construction and at the first run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import optimizers
from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.api.config import DeviceConnectionType
from tests.support.models import training
from tests.support.models.training import OPTIMIZERS, tf1

Optimizer = tf1.train.Optimizer
V2 = optimizers.GradientAccumulationOptimizerV2
CrossV2 = optimizers.CrossReplicaGradientAccumulationOptimizerV2
Old = optimizers.GradientAccumulationOptimizer
CrossOld = optimizers.CrossReplicaGradientAccumulationOptimizer
ALL = [V2, CrossV2, Old, CrossOld]


def _descent() -> Optimizer:
    return OPTIMIZERS["descent"]()


ERRORS: list[tuple[Callable[[], Any], type, str]] = []
for _cls in ALL:
    ERRORS += [
        (lambda c=_cls: c(_descent(), 0), ValueError, "must be a positive number"),
        (
            lambda c=_cls: c(_descent(), -3),
            ValueError,
            "num_mini_batches must be a positive number.",
        ),
        (lambda c=_cls: c(_descent(), 2.5), TypeError, "num_mini_batches must be an int"),
        (lambda c=_cls: c(_descent(), True), TypeError, "num_mini_batches must be an int"),
        (lambda c=_cls: c("sgd", 2), TypeError, "tf.compat.v1.train.Optimizer"),
    ]
for _cls in (Old, CrossOld):
    ERRORS += [
        (lambda c=_cls: c(OPTIMIZERS["adam"](), 2), ValueError, "Received: a AdamOptimizer"),
        (
            lambda c=_cls: c(optimizers.CrossReplicaOptimizer(OPTIMIZERS["adam"]()), 2),
            ValueError,
            "MomentumOptimizer only",
        ),
    ]
for _cls in (V2, CrossV2):
    ERRORS += [
        (
            lambda c=_cls: c(_descent(), 2, False, True),
            ValueError,
            "replicated_optimizer_state_sharding=True",
        ),
        (lambda c=_cls: c(_descent(), 2, "yes"), TypeError, "must be None, True or False"),
        (
            lambda c=_cls: c(_descent(), 2, reduction_method="max"),
            ValueError,
            "Cannot parse max as one of GradientAccumulationReductionMethod",
        ),
    ]


@pytest.mark.parametrize(("make", "error", "message"), ERRORS)
def test_wrong_arguments_of_constructors_are_refused(
    make: Callable[[], Any], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("cls", [Old, CrossOld])
def test_check_of_first_generation_can_be_left_out(cls: Any) -> None:
    training.configure()
    make = OPTIMIZERS["adam"]
    actual = training.on_the_device(
        lambda loss: cls(make(), 2, verify_usage=False).minimize(loss), 4
    )
    training.assert_close(actual, training.by_hand(make, training.data(4), 2))


def test_a_wrong_type_of_accumulators_is_refused() -> None:
    training.configure()
    with pytest.raises(TypeError, match="type of an accumulator"):
        training.on_the_device(lambda loss: V2(_descent(), 2, dtype="huge").minimize(loss), 4)


@pytest.mark.parametrize("cls", ALL)
def test_iterations_that_are_no_multiple(cls: Any) -> None:
    training.configure()
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"{cls.__name__} .*evenly divide"):
        training.on_the_device(lambda loss: cls(_descent(), 4).minimize(loss), 6)


def test_names_are_in_errors() -> None:
    training.configure()
    with pytest.raises(tf.errors.FailedPreconditionError, match="OptimizerV2 'mine' makes one"):
        training.on_the_device(lambda loss: V2(_descent(), 4, name="mine").minimize(loss), 6)


@pytest.mark.parametrize("cls", ALL)
def test_accumulation_outside_of_a_loop_is_refused(cls: Any) -> None:
    training.configure()
    x, y = training.data(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope(training.IPU):
            launch = ipu_compiler.compile(
                lambda a, b: cls(_descent(), 4).minimize(training.loss(a, b)), [x[0], y[0]]
            )
        session.run(tf1.global_variables_initializer())
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="which is not inside a training loop"
        ):
            session.run(launch)


def test_eager_use_is_refused() -> None:
    weights = tf.Variable([1.0])
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="which is not inside a training loop"
    ):
        V2(_descent(), 4).apply_gradients([(tf.constant([1.0]), weights)])
    V2(_descent(), 1).apply_gradients([(tf.constant([1.0]), weights)])
    np.testing.assert_allclose(weights.numpy(), [0.95])


WRAPPERS: dict[str, Callable[[Optimizer], Optimizer]] = {
    "CrossReplicaOptimizer": optimizers.CrossReplicaOptimizer,
    "MapGradientOptimizer": lambda opt: optimizers.MapGradientOptimizer(opt, lambda g, v: g),
    "ShardedOptimizer": optimizers.ShardedOptimizer,
    "IpuOptimizer": optimizers.IpuOptimizer,
    "GradientAccumulationOptimizerV2": lambda opt: V2(opt, 2),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("cls", [V2, CrossOld])
def test_must_be_the_outermost(cls: Any, wrapper: str) -> None:
    training.configure()
    with pytest.raises(tf.errors.FailedPreconditionError) as raised:
        training.on_the_device(lambda loss: WRAPPERS[wrapper](cls(_descent(), 2)).minimize(loss), 4)
    message = str(raised.value)
    assert "must not be wrapped by any other optimizer" in message
    assert cls.__name__ in message
    assert wrapper in message


@pytest.mark.parametrize("wrapper", list(WRAPPERS)[:3])
def test_accumulation_may_wrap_other_optimizers(wrapper: str) -> None:
    training.configure()
    actual = training.on_the_device(
        lambda loss: V2(WRAPPERS[wrapper](_descent()), 2).minimize(loss), 4
    )
    training.assert_close(actual, training.by_hand(_descent, training.data(4), 2))


def test_remote_memory_that_is_not_there() -> None:
    on_demand = DeviceConnectionType.ON_DEMAND
    training.configure(device_connection__type=on_demand)
    with pytest.raises(tf.errors.FailedPreconditionError, match="does not support remote memory"):
        training.on_the_device(lambda loss: V2(_descent(), 2, True).minimize(loss), 4)
    training.configure(
        device_connection__type=on_demand, device_connection__enable_remote_buffers=True
    )
    training.on_the_device(lambda loss: V2(_descent(), 2, True).minimize(loss), 4)
