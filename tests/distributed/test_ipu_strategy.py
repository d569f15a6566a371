"""Tests of `IPUStrategy`: variables, `run`, functions with `jit_compile=True` in its scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache, current_scope
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.runtime import system

IPU = "/device:IPU:0"
CPU = "/device:CPU:0"
X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


def _configure(ipus: Any = 1) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    _configure()
    yield
    system.reset_ipu_configuration()


@pytest.fixture
def strategy() -> Iterator[ipu_strategy.IPUStrategy]:
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        yield strategy


@tf.function(jit_compile=True)
def _double(x: tf.Tensor) -> tf.Tensor:
    return x * 2


class TestAttributes:
    """Properties of a strategy."""

    def test_the_class_has_both_names(self) -> None:
        assert ipu_strategy.IPUStrategy is ipu_strategy.IPUStrategyV1
        assert issubclass(ipu_strategy.IPUStrategy, tf.compat.v1.distribute.Strategy)

    @pytest.mark.parametrize("ipus", [1, 4])
    def test_one_replica_is_in_sync(self, ipus: int) -> None:
        _configure(ipus)
        assert ipu_strategy.IPUStrategy().num_replicas_in_sync == 1

    def test_options_are_attributes(self) -> None:
        strategy = ipu_strategy.IPUStrategy(
            "/device:IPU:1", enable_dataset_iterators=False, enable_keras_extensions=False
        )
        assert strategy.device_ordinal == 1
        assert not strategy.enable_dataset_iterators
        assert not strategy.enable_keras_extensions
        assert not strategy.enable_custom_train_step
        assert strategy.supports_loss_scaling

    def test_the_scope_sets_the_current_strategy(self) -> None:
        assert current_scope.current() is None
        assert current_scope.current_ordinal() == 0
        strategy = ipu_strategy.IPUStrategy("/device:IPU:2")
        with strategy.scope():
            assert current_scope.current() is strategy
            assert current_scope.current_ordinal() == 2
        assert current_scope.current() is None


class TestVariables:
    """Variables made in the scope."""

    @pytest.mark.parametrize("ordinal", [0, 1])
    def test_live_on_the_device(self, ordinal: int) -> None:
        _configure([1, 1])
        with ipu_strategy.IPUStrategy(f"/device:IPU:{ordinal}").scope():
            variable = tf.Variable([1.0, 2.0])
        assert variable.device.endswith(f"/device:IPU:{ordinal}")

    def test_made_outside_stay_on_the_cpu(self) -> None:
        ipu_strategy.IPUStrategy()
        assert tf.Variable(1.0).device.endswith(CPU)

    def test_initial_values_are_computed_on_the_cpu(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        devices: list[str] = []

        def initial_value() -> tf.Tensor:
            value = tf.ones([2]) * 3.0
            devices.append(value.device)
            return value

        variable = tf.Variable(initial_value)
        assert [device[-len(CPU) :] for device in devices] == [CPU]
        assert variable.device.endswith(IPU)
        np.testing.assert_array_equal(variable.numpy(), [3, 3])

    def test_random_initial_values_follow_the_host(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        initializer = tf.keras.initializers.GlorotUniform(seed=3)
        variable = tf.Variable(lambda: initializer([4, 4]))
        with tf.device(CPU):
            expected = tf.keras.initializers.GlorotUniform(seed=3)([4, 4])
        np.testing.assert_array_equal(variable.numpy(), expected)

    def test_variables_of_keras_layers_are_on_the_device(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        layer = tf.keras.layers.Dense(3, kernel_initializer=tf.keras.initializers.HeNormal(seed=1))
        layer.build([None, 2])
        assert all(variable.device.endswith(IPU) for variable in layer.variables)

    def test_variables_of_optimizers_are_on_the_device(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        optimizer = tf.keras.optimizers.legacy.Adam()
        variable = tf.Variable([1.0])

        @tf.function(jit_compile=True)
        def step() -> None:
            with tf.GradientTape() as tape:
                loss = variable * 2
            optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])

        strategy.run(step)
        slots = [v for v in optimizer.variables() if v.dtype == tf.float32]
        assert all(slot.device.endswith(IPU) for slot in slots)
        assert variable.numpy() == pytest.approx([0.999])

    def test_can_be_used_outside_the_scope(self) -> None:
        with ipu_strategy.IPUStrategy().scope():
            variable = tf.Variable(X)
        np.testing.assert_array_equal(variable + 1.0, X + 1)
        variable.assign(X * 2)
        np.testing.assert_array_equal(variable.numpy(), X * 2)

    def test_made_at_the_first_call(self, strategy: ipu_strategy.IPUStrategy) -> None:
        made: list[tf.Variable] = []

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            if not made:
                made.append(tf.Variable(tf.ones([4]) * 3.0))
            return made[0].assign_add(x)

        np.testing.assert_array_equal(strategy.run(step, [X]), X + 3)
        np.testing.assert_array_equal(strategy.run(step, [X]), X * 2 + 3)
        assert made[0].device.endswith(IPU)


class TestRun:
    """`run` with every kind of function."""

    @pytest.mark.parametrize("jit_compile", [True, None])
    def test_a_tf_function_is_one_program(
        self, strategy: ipu_strategy.IPUStrategy, jit_compile: Any
    ) -> None:
        step = tf.function(lambda x: tf.exp(x), jit_compile=jit_compile)
        np.testing.assert_allclose(strategy.run(step, [tf.constant(X)]), np.exp(X), rtol=1e-6)
        assert len(cache.executables()) == 1

    def test_a_concrete_function_is_one_program(self, strategy: ipu_strategy.IPUStrategy) -> None:
        step = tf.function(lambda x: tf.exp(x)).get_concrete_function(tf.TensorSpec([4]))
        np.testing.assert_allclose(strategy.run(step, [tf.constant(X)]), np.exp(X), rtol=1e-6)
        assert len(cache.executables()) == 1

    def test_a_method_is_one_program_for_each_object(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        class Model(tf.Module):
            def __init__(self) -> None:
                self.weights = tf.Variable(X)

            @tf.function(jit_compile=True)
            def step(self, x: tf.Tensor) -> tf.Tensor:
                return self.weights * x

        model, other = Model(), Model()
        other.weights.assign(X * 2)
        np.testing.assert_array_equal(strategy.run(model.step, [X]), X * X)
        np.testing.assert_array_equal(strategy.run(other.step, [X]), X * X * 2)

    def test_run_works_outside_the_scope(self) -> None:
        result = ipu_strategy.IPUStrategy().run(_double, [tf.constant(X)])
        np.testing.assert_array_equal(result, X * 2)
        assert len(cache.executables()) == 1

    def test_keyword_arguments_are_passed(self, strategy: ipu_strategy.IPUStrategy) -> None:
        @tf.function(jit_compile=True)
        def step(x: tf.Tensor, scale: float = 1.0, shift: float = 0.0) -> tf.Tensor:
            return x * scale + shift

        results = [
            strategy.run(step, [X]),
            strategy.run(step, args=(X,), kwargs={"scale": 2.0}),
            strategy.run(step, kwargs={"x": tf.constant(X), "shift": tf.constant(5.0)}),
        ]
        np.testing.assert_array_equal(results, [X, X * 2, X + 5])

    def test_arguments_may_be_structures_and_variables(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        variable = tf.Variable(X)

        @tf.function(jit_compile=True)
        def step(pair: Any, weights: tf.Variable) -> tf.Tensor:
            weights.assign_add(pair["a"][0])
            return weights * pair["b"]

        result = strategy.run(step, [{"a": (X, None), "b": tf.constant(2.0)}, variable])
        np.testing.assert_array_equal(result, X * 4)
        np.testing.assert_array_equal(variable.numpy(), X * 2)

    @pytest.mark.parametrize("decorate", [tf.function, lambda f: f])
    def test_run_works_in_another_tf_function(
        self, strategy: ipu_strategy.IPUStrategy, decorate: Callable[..., Any]
    ) -> None:
        inner = decorate(lambda x: tf.exp(x))

        @tf.function
        def outer(x: tf.Tensor) -> tf.Tensor:
            return strategy.run(inner, [x]) + 1.0

        np.testing.assert_allclose(outer(tf.constant(X)), np.exp(X) + 1, rtol=1e-6)
        assert len(cache.executables()) == 1

    def test_run_works_in_a_jit_compiled_function(self, strategy: ipu_strategy.IPUStrategy) -> None:
        @tf.function(jit_compile=True)
        def outer(x: tf.Tensor) -> tf.Tensor:
            return strategy.run(lambda y: tf.exp(y), [x]) + strategy.run(_double, [x])

        np.testing.assert_allclose(outer(tf.constant(X)), np.exp(X) + X * 2, rtol=1e-6)
        assert len(cache.executables()) == 1

    def test_a_function_without_results_runs_in_another(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        variable = tf.Variable(0.0)

        def inner() -> None:
            variable.assign_add(1.0)

        @tf.function
        def outer() -> tf.Tensor:
            for _ in tf.range(3):
                strategy.run(inner)
            return variable.read_value()

        assert outer().numpy() == 3.0

    @pytest.mark.parametrize("function", [lambda x: x, len, print])
    def test_a_plain_function_in_eager_mode_is_refused(
        self, strategy: ipu_strategy.IPUStrategy, function: Callable[..., Any]
    ) -> None:
        with pytest.raises(ValueError, match="does not support eager execution"):
            strategy.run(function, [tf.constant(1.0)])

    def test_float64_inputs_are_refused(self, strategy: ipu_strategy.IPUStrategy) -> None:
        step = tf.function(lambda x: tf.cast(x, tf.float32), jit_compile=True)
        with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
            strategy.run(step, [tf.constant(1.0, tf.float64)])

    def test_float64_outputs_are_refused(self, strategy: ipu_strategy.IPUStrategy) -> None:
        step = tf.function(lambda x: tf.cast(x, tf.float64), jit_compile=True)
        with pytest.raises(TypeError, match="Unsupported data type for output: float64"):
            strategy.run(step, [tf.constant(1.0)])

    def test_unsupported_ops_are_refused(self, strategy: ipu_strategy.IPUStrategy) -> None:
        step = tf.function(lambda x: tf.abs(tf.signal.rfft(x)), jit_compile=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="for IPU devices"):
            strategy.run(step, [X])
        np.testing.assert_array_equal(strategy.run(_double, [X]), X * 2)

    def test_a_variable_of_the_cpu_is_refused(self) -> None:
        variable = tf.Variable(1.0)
        step = tf.function(lambda: variable + 1.0, jit_compile=True)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            with pytest.raises(tf.errors.InvalidArgumentError, match="variables on the IPU"):
                strategy.run(step)

    def test_experimental_run_v2_has_been_deleted(self, strategy: ipu_strategy.IPUStrategy) -> None:
        with pytest.raises(RuntimeError, match="has been deleted"):
            strategy.experimental_run_v2(_double, [X])

    def test_an_exception_of_the_function_reaches_the_caller(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        @tf.function(jit_compile=True)
        def step() -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            strategy.run(step)
        np.testing.assert_array_equal(strategy.run(_double, [X]), X * 2)


class TestResults:
    """`run` returns the function's results."""

    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (lambda x: x + 1, X + 1),
            (lambda x: (x, x * 2), (X, X * 2)),
            (lambda x: [x, (x * 2, {"k": x})], [X, (X * 2, {"k": X})]),
            (lambda x: {"a": x, "b": None}, {"a": X, "b": None}),
            (lambda x: None, None),
            (lambda x: (None, x), (None, X)),
            (lambda x: (), ()),
            (lambda x: 3.0, np.float32(3)),
        ],
    )
    @pytest.mark.parametrize("nested", [False, True])
    def test_results_keep_their_structure(
        self,
        strategy: ipu_strategy.IPUStrategy,
        function: Callable[..., Any],
        expected: Any,
        nested: bool,
    ) -> None:
        step = tf.function(function, jit_compile=True)
        if nested:
            result = tf.function(lambda x: strategy.run(step, [x]))(tf.constant(X))
        else:
            result = strategy.run(step, [tf.constant(X)])
        tf.nest.assert_same_structure(result, expected)
        for one, other in zip(tf.nest.flatten(result), tf.nest.flatten(expected)):
            if other is None:
                assert one is None
            else:
                np.testing.assert_array_equal(one, other)

    def test_results_are_plain_tensors(self, strategy: ipu_strategy.IPUStrategy) -> None:
        assert isinstance(strategy.run(_double, [X]), tf.Tensor)

    def test_side_effects_happen_without_results(self, strategy: ipu_strategy.IPUStrategy) -> None:
        variable = tf.Variable(0.0)

        @tf.function(jit_compile=True)
        def step() -> None:
            variable.assign_add(1.0)
            variable.assign(variable * 3.0)

        assert strategy.run(step) is None
        assert strategy.run(step) is None
        assert variable.numpy() == 12.0


class TestDirectCalls:
    """A jit-compiled function called without `run` is a program too."""

    def test_function_called_in_the_scope_is_one_program(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        np.testing.assert_array_equal(_double(tf.constant(X)), X * 2)
        assert len(cache.executables()) == 1

    @pytest.mark.parametrize("ordinal", [0, 1])
    def test_a_function_called_under_a_device_runs_there(self, ordinal: int) -> None:
        _configure([1, 1])
        with tf.device(f"/device:IPU:{ordinal}"):
            np.testing.assert_array_equal(_double(tf.constant(X)), X * 2)
        assert [executable.ordinal for executable in cache.executables()] == [ordinal]

    def test_function_called_in_plain_function_is_one_program(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        @tf.function
        def outer(x: tf.Tensor) -> tf.Tensor:
            return _double(x) + 1.0

        np.testing.assert_array_equal(outer(tf.constant(X)), X * 2 + 1)
        assert len(cache.executables()) == 1

    def test_nested_jit_functions_are_one_program(self, strategy: ipu_strategy.IPUStrategy) -> None:
        @tf.function(jit_compile=True)
        def outer(x: tf.Tensor) -> tf.Tensor:
            return _double(_double(x)) + tf.exp(x)

        np.testing.assert_allclose(outer(tf.constant(X)), X * 4 + np.exp(X), rtol=1e-6)
        assert len(cache.executables()) == 1

    def test_gradient_in_jit_function_of_jit_function(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        square = tf.function(lambda x: x * x, jit_compile=True)

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = square(x)
            return tape.gradient(y, x)

        np.testing.assert_array_equal(step(tf.constant(X)), X * 2)

    @pytest.mark.parametrize("decorate", [lambda f: f, tf.function])
    def test_gradients_are_not_taken_from_outside(
        self, strategy: ipu_strategy.IPUStrategy, decorate: Callable[..., Any]
    ) -> None:
        @decorate
        def differentiate(x: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = _double(x)
            return tape.gradient(y, x)

        with pytest.raises(NotImplementedError, match="Cannot differentiate"):
            differentiate(tf.constant(X))

    def test_an_autograph_loop_updates_a_variable(self, strategy: ipu_strategy.IPUStrategy) -> None:
        total = tf.Variable(0.0)

        @tf.function(jit_compile=True)
        def step(n: tf.Tensor) -> tf.Tensor:
            last = 0.0
            for i in tf.range(n):
                if i % 2 == 0:
                    total.assign_add(tf.cast(i, tf.float32))
                last = tf.cast(i, tf.float32)
            while last < 10.0:
                last += 4.0
            return last

        assert step(tf.constant(5)).numpy() == 12.0
        assert total.numpy() == 6.0
        assert step(tf.constant(0)).numpy() == 12.0
        assert total.numpy() == 6.0

    def test_python_loop_is_unrolled(self, strategy: ipu_strategy.IPUStrategy) -> None:
        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            for factor in range(1, 4):
                x = x * float(factor)
            return x

        np.testing.assert_array_equal(step(tf.constant(X)), X * 6)

    def test_input_signature_makes_one_program_for_each_shape(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None], tf.float32)])
        def step(x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(x)

        assert step(tf.constant(X)).numpy() == 10.0
        assert step(tf.constant(X[:2])).numpy() == 3.0
        assert len(cache.executables()) == 2


class TestRetracing:
    """When a function is traced and compiled again."""

    def test_new_shapes_types_and_python_values_trace_again(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        traces: list[Any] = []

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor, factor: float) -> tf.Tensor:
            traces.append((x.shape, x.dtype, factor))
            return tf.cast(tf.exp(tf.cast(x, tf.float32)) * factor, tf.float32)

        for _ in range(2):
            step(tf.constant(X), 2.0)
        assert len(traces) == len(cache.executables()) == 1
        step(tf.constant(X[:2]), 2.0)
        step(tf.constant(X), 3.0)
        step(tf.constant([1, 2, 3, 4]), 2.0)
        assert len(traces) == len(cache.executables()) == 4
        step(tf.constant(X), 2.0)
        assert len(traces) == len(cache.executables()) == 4

    def test_reconfiguring_compiles_again_but_keeps_variables(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        variable = tf.Variable(1.0)
        step = tf.function(lambda: variable.assign(variable * 2.0), jit_compile=True)
        assert strategy.run(step).numpy() == 2.0
        _configure(2)
        assert cache.executables() == []
        assert strategy.run(step).numpy() == 4.0
        assert [executable.replicas for executable in cache.executables()] == [2]


class TestGraphMode:
    """The strategy in TensorFlow 1 style."""

    def test_variables_and_run_work_in_graph_mode(self) -> None:
        with tf.Graph().as_default():
            strategy = ipu_strategy.IPUStrategy()
            with strategy.scope():
                variable = tf.compat.v1.get_variable("w", initializer=X, use_resource=True)
                result = strategy.run(lambda x: variable * x, [tf.constant(X)])
            assert variable.device.endswith(IPU)
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                np.testing.assert_array_equal(session.run(result), X * X)
        assert len(cache.executables()) == 1


class TestDatasets:
    @pytest.mark.parametrize("kind", [ipu_strategy.IPUStrategy, ipu_strategy.IPUStrategyV1])
    def test_datasets_are_made_from_a_function(self, kind: Any) -> None:
        contexts: list[tf.distribute.InputContext] = []
        dataset = tf.data.Dataset.range(6).batch(2)

        def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
            contexts.append(context)
            return dataset

        strategy = kind()
        assert strategy.distribute_datasets_from_function(make) is dataset
        with strategy.scope():
            again = strategy.distribute_datasets_from_function(make)
        assert len(again) == again.cardinality() == 3
        (first, _) = contexts
        assert (first.num_input_pipelines, first.input_pipeline_id) == (1, 0)
        assert first.num_replicas_in_sync == 1
        assert first.get_per_replica_batch_size(8) == 8
