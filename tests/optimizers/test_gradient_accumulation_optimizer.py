"""Gradient accumulation, against plain TensorFlow that adds the gradients up itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import optimizers
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
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


class Casting(optimizers.IpuOptimizer):
    """Notes the types of gradients, and casts them to the types of the variables."""

    def __init__(self, opt: Optimizer) -> None:
        super().__init__(opt)
        self.seen: set[tf.DType] = set()

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        self.seen |= {gradient.dtype for gradient, _ in pairs}
        cast = [(tf.cast(gradient, v.dtype.base_dtype), v) for gradient, v in pairs]
        return super().apply_gradients(cast, *args, **kwargs)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_mini_batches_make_one_update_with_their_sum(name: str, count: int) -> None:
    training.configure()
    make = OPTIMIZERS[name]
    actual = training.on_the_device(lambda loss: V2(make(), count).minimize(loss), 8)
    training.assert_close(actual, training.by_hand(make, training.data(8), count))


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("name", ["descent", "nesterov"])
def test_all_classes_do_the_same_on_one_replica(cls: Any, name: str) -> None:
    training.configure()
    make = OPTIMIZERS[name]
    actual = training.on_the_device(lambda loss: cls(make(), 4).minimize(loss), 8)
    training.assert_close(actual, training.by_hand(make, training.data(8), 4))


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize(
    ("cls", "name"), [(CrossV2, "adam"), (CrossV2, "nesterov"), (CrossOld, "momentum")]
)
def test_replicas_update_with_the_mean_of_their_sums(cls: Any, name: str, replicas: int) -> None:
    training.configure(replicas)
    make = OPTIMIZERS[name]
    actual = training.on_the_device(
        lambda loss: cls(make(), 2).minimize(loss), 6, replicas=replicas
    )
    elements = training.data(6 * replicas)
    expected = training.by_hand(make, elements, 2 * replicas, divisor=replicas)
    training.assert_close(actual, expected)
    ops = cache.executables()[0].ops
    exchanges = [op for op in ops if op.type == "IpuCrossReplicaSum"]
    assert len(exchanges) == 3  # variables
    assert all(op.conditional for op in exchanges)


def test_replicas_stay_apart_without_an_exchange() -> None:
    training.configure(2)
    actual = training.on_the_device(lambda loss: V2(_descent(), 2).minimize(loss), 4, replicas=2)
    first = tuple(values[::2] for values in training.data(8))
    training.assert_close(actual, training.by_hand(_descent, first, 2))


@pytest.mark.parametrize("method", GradientAccumulationReductionMethod)
@pytest.mark.parametrize("by_name", [False, True])
def test_reduction_methods_scale_the_update(
    method: GradientAccumulationReductionMethod, by_name: bool
) -> None:
    training.configure()
    argument: Any = method.name.lower() if by_name else method
    make = OPTIMIZERS["momentum"]
    actual = training.on_the_device(
        lambda loss: V2(make(), 4, reduction_method=argument).minimize(loss), 8
    )
    divisor = 1 if method is GradientAccumulationReductionMethod.SUM else 4
    training.assert_close(actual, training.by_hand(make, training.data(8), 4, divisor))


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize("cls", [V2, CrossV2])
def test_accumulators_may_have_another_type(cls: Any, as_function: bool) -> None:
    training.configure()
    casting = []

    def train(loss: tf.Tensor) -> Any:
        casting.append(Casting(_descent()))
        dtype: Any = (lambda v: tf.float16) if as_function else tf.float16
        return cls(casting[-1], 4, dtype=dtype).minimize(loss)

    actual = training.on_the_device(train, 8)
    assert casting[0].seen == {tf.float16}
    training.assert_close(actual, training.by_hand(_descent, training.data(8), 4), 5e-3)
    exact = training.on_the_device(lambda loss: V2(_descent(), 4).minimize(loss), 8)
    assert any((actual[name] != exact[name]).any() for name in exact)
    accumulators = [v for v in cache.executables()[0].variables if v.role == "accumulator"]
    assert [v.dtype for v in accumulators] == ["float16"] * 3


def test_float16_variables_accumulate_in_float32() -> None:
    def model(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        product = tf.matmul(tf.cast(x, tf.float16), training.variable("w", 5, 1, dtype=np.float16))
        return tf.reduce_mean((tf.cast(product, tf.float32)[:, 0] - y) ** 2)

    training.configure()
    casting = []

    def train(loss: tf.Tensor) -> Any:
        casting.append(Casting(_descent()))
        return V2(casting[-1], 4, dtype=np.float32).minimize(loss)

    actual = training.on_the_device(train, 8, model=model)
    assert casting[0].seen == {tf.float32}
    expected = training.by_hand(_descent, training.data(8), 4, model=model)
    training.assert_close(actual, expected, 5e-3)


def test_update_of_other_type_is_refused_safely() -> None:
    training.configure()
    with pytest.raises(tf.errors.InvalidArgumentError, match="type float32 with a .*float16"):
        training.on_the_device(lambda loss: V2(_descent(), 4, dtype=tf.float16).minimize(loss), 8)


@pytest.mark.parametrize("cls", [V2, Old])
def test_each_run_starts_with_nothing_accumulated(cls: Any) -> None:
    training.configure()
    make = OPTIMIZERS["momentum"]
    actual = training.on_the_device(lambda loss: cls(make(), 4).minimize(loss), 8, runs=3)
    training.assert_close(actual, training.by_hand(make, training.data(24), 4))


def test_two_optimizers_accumulate_in_one_loop() -> None:
    """One updates every 2 mini-batches, the other every 4, each its own variables."""

    def train(loss: tf.Tensor) -> list[Any]:
        kernel, *others = tf1.trainable_variables()
        # The gradients of both first: updates of this mini-batch are not to be seen by them.
        pairs = _descent().compute_gradients(loss, [kernel, *others])
        with tf.control_dependencies([gradient.op for gradient, _ in pairs]):
            return [
                V2(_descent(), 2).apply_gradients(pairs[:1]),
                V2(_descent(), 4).apply_gradients(pairs[1:]),
            ]

    training.configure()
    actual = training.on_the_device(train, 8)
    x, y = training.data(8)
    with tf.Graph().as_default():
        feeds = tf1.placeholder(tf.float32, x.shape[1:]), tf1.placeholder(tf.float32, y.shape[1:])
        variables_of = tf1.trainable_variables
        loss = training.loss(*feeds)
        gradients = [tf.convert_to_tensor(g) for g in tf.gradients(loss, variables_of())]
        sums = [tf1.placeholder(g.dtype, g.shape) for g in gradients]
        steps = [tf1.assign_sub(v, 0.05 * total) for v, total in zip(variables_of(), sums)]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            totals = [np.zeros(g.shape, np.float32) for g in gradients]
            for index, element in enumerate(zip(x, y)):
                found = session.run(gradients, dict(zip(feeds, element)))
                totals = [total + g for total, g in zip(totals, found)]
                for which, count in enumerate((2, 4, 4)):
                    if index % count == count - 1:
                        session.run(steps[which], {sums[which]: totals[which]})
                        totals[which] = np.zeros_like(totals[which])
            expected = training.values(session)
    training.assert_close(actual, expected)


@pytest.mark.parametrize("count", [1, 4])
def test_global_step_counts_updates(count: int) -> None:
    def train(loss: tf.Tensor) -> Any:
        step = tf1.get_variable("step", initializer=np.int32(0), use_resource=True, trainable=False)
        return V2(_descent(), count).minimize(loss, global_step=step)

    training.configure()
    assert training.on_the_device(train, 8, runs=2)["step:0"] == 16 // count


@pytest.mark.parametrize("count", [1, 2])
def test_missing_gradients_are_passed_on(count: int) -> None:
    class Spy(optimizers.IpuOptimizer):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(grads_and_vars)
            missing.extend(v.name for gradient, v in pairs if gradient is None)
            return super().apply_gradients(pairs, *args, **kwargs)

    missing: list[str] = []

    def train(loss: tf.Tensor) -> Any:
        training.variable("unused", 2)
        return V2(Spy(_descent()), count).minimize(loss)

    training.configure()
    actual = training.on_the_device(train, 4)
    assert missing == ["unused:0"]
    expected = training.by_hand(_descent, training.data(4), count)
    unused = actual.pop("unused:0")
    assert unused.shape == (2,)
    training.assert_close(actual, expected)


def test_no_gradient_at_all() -> None:
    training.configure()
    with pytest.raises(ValueError, match="No gradients provided"):
        training.on_the_device(
            lambda loss: V2(_descent(), 2).minimize(
                loss, var_list=[training.variable("unused", 2)]
            ),
            4,
        )


def test_one_mini_batch_needs_no_loop_or_state() -> None:
    training.configure()
    x, y = training.data(1)
    make = OPTIMIZERS["adam"]
    with tf.Graph().as_default():
        with scopes.ipu_scope(training.IPU):
            launch = ipu_compiler.compile(
                lambda a, b: V2(make(), 1).minimize(training.loss(a, b)), [x[0], y[0]]
            )
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(launch)
            actual = training.values(session)
    training.assert_close(actual, training.by_hand(make, (x, y), 1))
    assert "IpuProgramVariable" not in {op.type for op in cache.executables()[0].ops}


@pytest.mark.parametrize("cls", [V2, CrossV2, Old])
def test_accumulation_works_in_a_function_of_a_strategy(cls: Any) -> None:
    training.configure()
    x, y = training.data(8)
    first = np.linspace(-1, 1, training.FEATURES, dtype=np.float32)[:, None]
    with ipu_strategy.IPUStrategy().scope():
        strategy = tf.distribute.get_strategy()
        weights = tf.Variable(first)
        step = tf.Variable(0)
        opt = cls(tf1.train.MomentumOptimizer(0.02, 0.9), 4)
        iterator = iter(tf.data.Dataset.from_tensor_slices((x, y)))

        @tf.function(jit_compile=True)
        def train() -> None:
            for _ in tf.range(8):
                a, b = next(iterator)
                opt.minimize(
                    lambda a=a, b=b: tf.reduce_mean((tf.matmul(a, weights)[:, 0] - b) ** 2),
                    var_list=[weights],
                    global_step=step,
                )

        strategy.run(train)
    value, momentum = first.astype(np.float64), 0
    for a, b in zip(x.reshape(2, 4, 2, -1), y.reshape(2, 4, 2)):
        gradient = sum(p.T @ (p @ value - q[:, None]) for p, q in zip(a, b))
        momentum = 0.9 * momentum + gradient
        value = value - 0.02 * momentum
    np.testing.assert_allclose(weights.numpy(), value, rtol=1e-5)
    assert step.numpy() == 2


def test_replicas_accumulate_in_a_function_of_a_strategy() -> None:
    """The mean is taken once, though the strategy too would combine replicas' values."""
    training.configure(2)
    x, y = training.data(8)
    with ipu_strategy.IPUStrategy().scope():
        strategy = tf.distribute.get_strategy()
        weights = tf.Variable(tf.zeros([training.FEATURES, 1]))
        opt = CrossV2(_descent(), 2)
        iterator = iter(tf.data.Dataset.from_tensor_slices((x, y)))

        @tf.function(jit_compile=True)
        def train() -> None:
            for _ in tf.range(4):
                a, b = next(iterator)
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((tf.matmul(a, weights)[:, 0] - b) ** 2)
                opt.apply_gradients([(tape.gradient(loss, weights), weights)])

        strategy.run(train)
    value = np.zeros((training.FEATURES, 1))
    for a, b in zip(x.reshape(2, 4, 2, -1), y.reshape(2, 4, 2)):
        value -= 0.05 * sum(p.T @ (p @ value - q[:, None]) for p, q in zip(a, b)) / 2
    np.testing.assert_allclose(weights.numpy(), value, rtol=1e-5)


def _while(limit: int, count: int) -> Any:
    """Trains in a loop whose number of iterations is an argument of the program."""
    x, y = training.data(1)
    with tf.Graph().as_default():

        def body(i: tf.Tensor) -> Any:
            train = V2(_descent(), count).minimize(training.loss(x[0], y[0]))
            with tf.control_dependencies([train]):
                return i + 1

        with scopes.ipu_scope(training.IPU):
            launch = ipu_compiler.compile(
                lambda n: loops.while_loop(lambda i: i < n, body, [0]), [tf.constant(limit)]
            )
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            return session.run(launch)


def test_number_of_iterations_known_at_run_time_only() -> None:
    training.configure()
    assert _while(6, 3) == [6]
    with pytest.raises(tf.errors.FailedPreconditionError, match="1 mini-batches .* evenly divide"):
        _while(7, 3)


@pytest.mark.parametrize("offload", [None, False, True])
@pytest.mark.parametrize("sharding", [None, False, True])
def test_where_variables_are_kept_never_changes_results(
    offload: bool | None, sharding: bool | None
) -> None:
    if sharding and offload is False:
        return
    training.configure(2, optimizations__minimum_remote_tensor_size=0)
    make = OPTIMIZERS["momentum"]
    actual = training.on_the_device(
        lambda loss: CrossV2(make(), 2, offload, sharding).minimize(loss), 4, replicas=2
    )
    expected = training.by_hand(make, training.data(8), 4, divisor=2)
    training.assert_close(actual, expected)


def test_slots_and_names_are_those_of_wrapped_optimizer() -> None:
    opt = CrossV2(tf1.train.MomentumOptimizer(0.1, 0.9, name="inner"), 2, name="outer")
    assert opt.get_name() == "inner"
    assert opt.get_slot_names() == []
    with tf.Graph().as_default():
        v = training.variable("v", 2)
        opt._opt.apply_gradients([(tf.constant([1.0, 2.0]), v)])
        assert opt.get_slot_names() == ["momentum"]
        assert opt.get_slot(v, "momentum").name == "v/inner:0"
        assert [slot.name for slot in opt.variables()] == ["v/inner:0"]
