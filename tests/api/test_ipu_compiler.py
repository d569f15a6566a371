"""Tests of `ipu_compiler.compile`: results, inputs, variables, when programs are compiled."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function as legacy_function

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.runtime import system

tf1 = tf.compat.v1
IPU = "/device:IPU:0"
X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


def _configure(ipus: int = 1) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    _configure()
    yield
    system.reset_ipu_configuration()


@pytest.fixture(autouse=True)
def graph(configured: None) -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def _compile(computation: Callable[..., Any], inputs: Any = None, device: str = IPU) -> Any:
    with scopes.ipu_scope(device):
        return ipu_compiler.compile(computation, inputs)


def _run(fetches: Any, feeds: Any = None) -> Any:
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        return session.run(fetches, feeds)


def _counter(name: str = "counter") -> tf.Variable:
    return tf1.get_variable(name, [], initializer=tf1.zeros_initializer(), use_resource=True)


class TestResults:
    """Every row of the table of result structures."""

    def test_none_gives_an_operation(self) -> None:
        assert isinstance(_compile(lambda: None), tf.Operation)

    def test_operation_of_none_runs_nothing(self) -> None:
        def net() -> None:
            _counter().assign_add(1.0)

        operation = _compile(net)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            assert session.run(operation) is None
            assert session.run(tf1.global_variables()) == [0.0]

    def test_one_tensor_gives_a_sequence_of_one(self) -> None:
        result = _compile(lambda x: x * 2, [X])
        assert isinstance(result, (list, tuple))
        assert len(result) == 1
        np.testing.assert_array_equal(_run(result)[0], X * 2)

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_a_sequence_of_one_stays_a_sequence(self, kind: type) -> None:
        result = _compile(lambda x: kind([x * 2]), [X])
        assert len(result) == 1
        np.testing.assert_array_equal(_run(result)[0], X * 2)

    def test_a_python_number_becomes_a_tensor(self) -> None:
        (result,) = _compile(lambda: 3.5)
        assert isinstance(result, tf.Tensor)
        assert _run(result) == np.float32(3.5)

    def test_several_values_keep_their_order(self) -> None:
        first, second, third = _compile(lambda x: (x + 1, 7, x - 1), [X])
        results = _run([first, second, third])
        np.testing.assert_array_equal(results[0], X + 1)
        assert results[1] == 7
        np.testing.assert_array_equal(results[2], X - 1)

    @pytest.mark.parametrize("wrap", [lambda op: op, lambda op: [op], lambda op: (op, op)])
    def test_only_operations_give_an_operation(self, wrap: Callable[..., Any]) -> None:
        operation = _compile(lambda: wrap(_counter().assign_add(1.0).op))
        assert isinstance(operation, tf.Operation)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(operation)
            assert session.run(tf1.global_variables()) == [1.0]

    def test_operations_after_tensors_run_with_any_of_them(self) -> None:
        def net(x: tf.Tensor) -> Any:
            return x + 1, x + 2, _counter().assign_add(1.0).op

        results = _compile(net, [X])
        assert len(results) == 2
        assert all(isinstance(result, tf.Tensor) for result in results)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(results[0])
            session.run(results[1])
            session.run(results)
            assert session.run(tf1.global_variables()) == [3.0]

    def test_every_result_runs_what_the_others_need(self) -> None:
        def net(x: tf.Tensor) -> Any:
            return x * 2, _counter().assign_add(1.0)

        doubled, _ = _compile(net, [X])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(doubled)
            assert session.run(tf1.global_variables()) == [1.0]

    def test_operations_that_are_not_returned_do_not_run(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            _counter().assign_add(1.0)
            return x * 2

        (result,) = _compile(net, [X])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(result)
            assert session.run(tf1.global_variables()) == [0.0]

    def test_operation_before_a_tensor_is_refused(self) -> None:
        with pytest.raises(ValueError, match="before"):
            _compile(lambda x: (tf.no_op(), x), [X])

    def test_nested_structures_are_kept(self) -> None:
        result = _compile(lambda x: {"a": x + 1, "b": [x + 2, (x + 3, 4.0)]}, [X])
        values = _run(result)
        np.testing.assert_array_equal(values["a"], X + 1)
        np.testing.assert_array_equal(values["b"][0], X + 2)
        np.testing.assert_array_equal(values["b"][1][0], X + 3)
        assert values["b"][1][1] == 4.0

    def test_an_input_may_be_a_result(self) -> None:
        (result,) = _compile(lambda x: x, [X])
        np.testing.assert_array_equal(_run(result), X)

    def test_static_shapes_are_known_outside(self) -> None:
        (result,) = _compile(lambda x: tf.reshape(x, [2, 2]), [X])
        assert result.shape == [2, 2]


class TestInputs:
    """Inputs of a computation."""

    def test_nested_inputs_keep_their_structure(self) -> None:
        def net(pair: Any, table: Any) -> Any:
            first, second = pair
            return first + second * table["scale"]

        result = _compile(net, [(X, X), {"scale": tf.constant(10.0)}])
        np.testing.assert_array_equal(_run(result)[0], X * 11)

    def test_list_of_numbers_is_that_many_scalars(self) -> None:
        received: list[Any] = []

        def net(numbers: Any) -> tf.Tensor:
            received.extend(numbers)
            return tf.stack(numbers)

        (result,) = _compile(net, [[1.0, 2.0, 3.0]])
        assert [number.shape.rank for number in received] == [0, 0, 0]
        np.testing.assert_array_equal(_run(result), [1, 2, 3])

    def test_tensors_of_the_enclosing_graph_can_be_captured(self) -> None:
        outer = tf1.placeholder(tf.float32, [4])
        (result,) = _compile(lambda x: x * outer, [X])
        np.testing.assert_array_equal(_run(result, {outer: X}), X * X)

    def test_inputs_that_are_no_list_are_refused(self) -> None:
        with pytest.raises(TypeError, match="list"):
            _compile(lambda x: x, X)

    def test_a_wrong_number_of_inputs_is_refused(self) -> None:
        with pytest.raises(TypeError, match="argument"):
            _compile(lambda x: x, [X, X])

    def test_int64_is_narrowed_and_extended_back(self) -> None:
        values = np.array([1, -2, 2**31, 2**40 + 5], np.int64)
        x = tf1.placeholder(tf.int64, [4])
        (result,) = _compile(lambda x: x + 1, [x])
        wrapped = (values.astype(np.int32).astype(np.int64) + 1).astype(np.int32)
        np.testing.assert_array_equal(_run(result, {x: values}), wrapped.astype(np.int64))

    @pytest.mark.parametrize("dtype", [np.float16, np.int32, np.bool_, np.uint8, np.int8])
    def test_tensors_keep_their_types(self, dtype: Any) -> None:
        x = tf1.placeholder(dtype, [2])
        same, cast = _compile(lambda x: (tf.identity(x), tf.cast(x, tf.float32)), [x])
        values = np.array([0, 1], dtype)
        result, as_float = _run([same, cast], {x: values})
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, values)
        np.testing.assert_array_equal(as_float, [0, 1])


class TestDevice:
    """The `device` of a computation's results."""

    def test_tensors_are_on_the_device_in_scope(self) -> None:
        seen = {}

        def body(x: tf.Tensor) -> tf.Tensor:
            seen["loop"] = (x + 1).device
            return x + 1

        def branch(x: tf.Tensor) -> tf.Tensor:
            seen["branch"] = (x * 3).device
            return x * 3

        def net(x: tf.Tensor) -> list[tf.Tensor]:
            weight = tf1.get_variable("weight", initializer=tf.ones([4]), use_resource=True)
            y = loops.repeat(2, body, [x * weight])
            y = tf.cond(tf.reduce_sum(y) > 0, lambda: branch(y), lambda: y)
            gradient = tf.gradients(y, weight)[0]
            seen.update(op=y.device, variable=weight.device, gradient=gradient.device)
            with tf.device("/device:CPU:0"):
                seen["own"] = (y + 1).device
            return [y, gradient]

        results = _compile(net, [X])
        assert seen.pop("own") == "/device:CPU:0"
        assert seen == dict.fromkeys(["loop", "branch", "op", "variable", "gradient"], IPU)
        y, gradient = _run(results)
        np.testing.assert_allclose(y, (X + 2) * 3)
        np.testing.assert_allclose(gradient, X * 3)


class TestRefusals:
    """Errors, which all leave the process usable."""

    @pytest.fixture(autouse=True)
    def usable_afterwards(self) -> Iterator[None]:
        yield
        with tf.Graph().as_default():
            np.testing.assert_array_equal(_run(_compile(lambda x: x * 2, [X]))[0], X * 2)

    @pytest.mark.parametrize("device", ["", "/device:CPU:0"])
    def test_not_in_an_ipu_scope(self, device: str) -> None:
        with tf.device(device), pytest.raises(Exception, match="was not placed on an IPU device"):
            ipu_compiler.compile(lambda x: x * 2, [X])

    @pytest.mark.parametrize("inputs", [None, [X]])
    def test_no_ops_need_no_ipu(self, inputs: Any) -> None:
        operation = ipu_compiler.compile(lambda *_: tf.no_op(), inputs)
        assert operation.type == "NoOp"
        assert _run(operation) is None

    def test_scope_inside_the_computation_is_enough(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_scope(IPU):
                return x * 2

        (result,) = ipu_compiler.compile(net, [X])
        np.testing.assert_array_equal(_run(result), X * 2)

    @pytest.mark.parametrize("wrap", [lambda spec: spec, lambda s: [s], lambda s: (1.0, {"a": s})])
    def test_an_estimator_spec_is_refused(self, wrap: Callable[[Any], Any]) -> None:
        def net() -> Any:
            return wrap(tf.estimator.EstimatorSpec("infer", predictions=tf.constant(1.0)))

        with pytest.raises(ValueError, match="contains an EstimatorSpec"):
            _compile(net)

    def test_exception_of_the_computation_reaches_the_caller(self) -> None:
        def net() -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            _compile(net)

    @pytest.mark.parametrize(
        "computation",
        [
            lambda x: tf.cast(tf.cast(x, tf.float64) * 2, tf.float32),
            lambda x: tf.abs(tf.signal.rfft(x)),
            lambda x: tf.linalg.qr(tf.reshape(x, [2, 2]))[0],
            lambda x: tf1.py_func(lambda value: value, [x], tf.float32),
            lambda x: tf.cast(tf.identity(tf.cast(x, tf.complex64)), tf.float32),
            lambda x: tf.cast(tf.identity(tf.constant([1.0], tf.float64)), tf.float32) + x,
        ],
        ids=["float64", "fft", "qr", "py_func", "complex", "float64_constant"],
    )
    def test_unsupported_ops_are_refused(self, computation: Callable[[tf.Tensor], Any]) -> None:
        x = tf1.placeholder(tf.float32, [4])
        result = _compile(computation, [x])
        with tf1.Session() as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="for IPU devices"):
                session.run(result, {x: X})

    @pytest.mark.parametrize("wide", [tf.float64, tf.complex64])
    def test_unsupported_inputs_are_refused(self, wide: tf.DType) -> None:
        x = tf1.placeholder(wide, [4])
        result = _compile(lambda x: tf.identity(x), [x])
        with tf1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError):
            session.run(result, {x: X})

    def test_device_that_is_not_attached(self) -> None:
        result = _compile(lambda x: x * 2, [X], "/device:IPU:3")
        with tf1.Session() as session:
            with pytest.raises(tf.errors.FailedPreconditionError, match="No device target"):
                session.run(result)

    def test_an_uninitialized_variable_is_refused(self) -> None:
        (result,) = _compile(lambda: _counter() + 1.0)
        with tf1.Session() as session:
            with pytest.raises(tf.errors.FailedPreconditionError, match="counter"):
                session.run(result)
            session.run(tf1.global_variables_initializer())
            assert session.run(result) == 1.0

    def test_a_variable_on_the_cpu_is_refused(self) -> None:
        with tf.device("/device:CPU:0"):
            variable = tf1.get_variable("on_cpu", initializer=X, use_resource=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="the variable 'on_cpu' on"):
            _compile(lambda: variable * 2)

    def test_endless_loop_obeys_the_timeout(self) -> None:
        x = tf1.placeholder(tf.float32, [])
        result = _compile(
            lambda x: loops.while_loop(lambda v: v >= 0, lambda v: tf.abs(v), [x]), [x]
        )
        options = tf1.RunOptions(timeout_in_ms=200)
        with tf1.Session() as session:
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(result, {x: 1.0}, options)
            assert session.run(result, {x: -1.0}) == [-1.0]

    def test_runtime_error_comes_out_with_its_class(self) -> None:
        index = tf1.placeholder(tf.int32, [])
        (result,) = _compile(lambda i: tf.gather(X, i), [index])
        with tf1.Session() as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
                session.run(result, {index: 9})
            assert session.run(result, {index: 2}) == 3.0


class TestVariables:
    """Variables made in a computation."""

    def test_are_resource_variables_on_the_device(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with tf1.variable_scope("layer"):
                return x * tf1.get_variable("w", initializer=2.0)

        _compile(net, [X])
        (variable,) = tf1.global_variables()
        assert tf1.trainable_variables() == [variable]
        assert isinstance(variable, tf.Variable)
        assert variable.dtype == tf.float32
        assert not variable.dtype._is_ref_dtype
        assert variable.name == "layer/w:0"
        assert variable.device == IPU

    def test_initializers_are_ops_of_the_enclosing_graph(self, graph: tf.Graph) -> None:
        _compile(lambda x: x * _counter(), [X])
        (variable,) = tf1.global_variables()
        assert variable.initializer.graph is graph
        assert variable.initial_value.graph is graph

    def test_keep_their_values_between_runs(self) -> None:
        (result,) = _compile(lambda: _counter().assign_add(1.0))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            assert [session.run(result) for _ in range(3)] == [1.0, 2.0, 3.0]

    def test_are_shared_by_two_programs(self) -> None:
        def net() -> tf.Tensor:
            with tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
                return _counter().assign_add(1.0)

        first, second = _compile(net)[0], _compile(net)[0]
        assert len(tf1.global_variables()) == 1
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            assert session.run(first) == 1.0
            assert session.run(second) == 2.0

    def test_can_be_saved_and_restored(self, tmp_path: Any) -> None:
        (result,) = _compile(lambda: _counter().assign_add(1.0))
        saver = tf1.train.Saver()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(result)
            path = saver.save(session, str(tmp_path / "model"))
            session.run(result)
            saver.restore(session, path)
            assert session.run(result) == 2.0

    def test_variables_made_outside_ipu_scope_are_on_device(self) -> None:
        with scopes.ipu_scope(IPU):
            variable = tf1.get_variable("outer", initializer=X)
        (result,) = _compile(lambda: variable * 2)
        np.testing.assert_array_equal(_run(result), X * 2)

    def test_variables_are_updated_in_control_flow(self) -> None:
        def net(flag: tf.Tensor) -> tf.Tensor:
            variable = _counter()
            return tf.cond(flag, lambda: variable.assign_add(1.0), lambda: variable.assign_sub(1.0))

        flag = tf1.placeholder(tf.bool, [])
        (result,) = _compile(net, [flag])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            assert [session.run(result, {flag: f}) for f in (True, True, False)] == [1.0, 2.0, 1.0]


OPTIMIZERS = {
    "descent": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf1.train.AdamOptimizer(0.1),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.1, momentum=0.5),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.1),
    "adadelta": lambda: tf1.train.AdadeltaOptimizer(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_train_as_in_plain_tensorflow(name: str) -> None:
    def net(x: tf.Tensor) -> Any:
        weights = tf1.get_variable("w", initializer=X, use_resource=True)
        loss = tf.reduce_sum((weights * x - 1.0) ** 2)
        return loss, OPTIMIZERS[name]().minimize(loss)

    def train(build: Callable[..., Any]) -> list[Any]:
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float32, [4])
            fetches = build(x)
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                losses = [session.run(fetches, {x: X})[0] for _ in range(5)]
                return [*losses, *session.run(tf1.global_variables())]

    ours, plain = train(lambda x: _compile(net, [x])), train(net)
    assert len(ours) == len(plain)
    for one, other in zip(ours, plain):
        np.testing.assert_allclose(one, other, rtol=1e-6)


class TestWhenItCompiles:
    """Compilation is deferred to the first run, and repeated when it has to be."""

    def test_nothing_is_compiled_before_the_first_run(self) -> None:
        (result,) = _compile(lambda x: x * tf.exp(x), [X])
        assert cache.executables() == []
        with tf1.Session() as session:
            session.run(tf.constant(1.0) + 1.0)
            assert cache.executables() == []
            session.run(result)
            session.run(result)
            assert len(cache.executables()) == 1

    def test_other_shapes_make_other_executables(self) -> None:
        x = tf1.placeholder(tf.float32, [None, 2])
        (result,) = _compile(lambda x: tf.matmul(x, x, transpose_b=True), [x])
        with tf1.Session() as session:
            for rows in (1, 3, 5, 3):
                value = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
                np.testing.assert_array_equal(session.run(result, {x: value}), value @ value.T)
        assert len(cache.executables()) == 3

    def test_equal_programs_share_an_executable(self) -> None:
        first, second = (_compile(lambda x: tf.exp(x) * 2, [X]) for _ in range(2))
        with tf1.Session() as session:
            session.run([first, second])
        assert len(cache.executables()) == 1

    def test_python_constants_make_other_executables(self) -> None:
        results = [_compile(lambda x, f=factor: tf.exp(x) * f, [X]) for factor in (2.0, 3.0)]
        with tf1.Session() as session:
            session.run(results)
        assert len(cache.executables()) == 2

    def test_reconfiguring_compiles_again(self) -> None:
        (result,) = _compile(lambda x: _counter().assign_add(tf.reduce_sum(x)), [X])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            assert session.run(result) == 10.0
            (before,) = cache.executables()
            _configure(2)
            assert cache.executables() == []
            assert session.run(result) == 20.0
            (after,) = cache.executables()
        assert (before.replicas, after.replicas) == (1, 2)
        assert after.generation > before.generation

    def test_runs_without_any_configuration(self) -> None:
        system.reset_ipu_configuration()
        np.testing.assert_array_equal(_run(_compile(lambda x: x * 2, [X]))[0], X * 2)

    def test_several_sessions_have_their_own_variables(self) -> None:
        (result,) = _compile(lambda: _counter().assign_add(1.0))
        with tf1.Session() as first, tf1.Session() as second:
            for session in (first, second):
                session.run(tf1.global_variables_initializer())
            assert [first.run(result), first.run(result), second.run(result)] == [1.0, 2.0, 1.0]
        assert len(cache.executables()) == 1

    def test_sessions_one_after_the_other_run_one_program(self) -> None:
        (result,) = _compile(lambda x: tf.exp(x), [X])
        for _ in range(3):
            np.testing.assert_allclose(_run(result), np.exp(X), rtol=1e-6)

    def test_several_threads_run_one_program(self) -> None:
        x = tf1.placeholder(tf.float32, [4])
        (result,) = _compile(lambda x: loops.repeat(10, lambda v: v + 1.0, [x]), [x])
        results: dict[int, np.ndarray] = {}
        with tf1.Session() as session:

            def run(number: int) -> None:
                results[number] = session.run(result, {x: X + number})

            threads = [threading.Thread(target=run, args=[number]) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for number in range(8):
            np.testing.assert_array_equal(results[number], X + number + 10)
        assert len(cache.executables()) == 1

    def test_two_devices_run_their_own_programs(self) -> None:
        config = IPUConfig()
        config.auto_select_ipus = [1, 1]
        config.configure_ipu_system()
        (first,) = _compile(lambda x: tf.exp(x), [X])
        (second,) = _compile(lambda x: tf.exp(x), [first], "/device:IPU:1")
        np.testing.assert_allclose(_run(second), np.exp(np.exp(X)), rtol=1e-6)
        assert [executable.ordinal for executable in cache.executables()] == [0, 1]


class TestComposition:
    """Programs among other graph code."""

    def test_gradients_are_not_taken_from_outside(self) -> None:
        x = tf.constant(X)
        (result,) = _compile(lambda x: x * x, [x])
        with pytest.raises(NotImplementedError, match="Cannot differentiate"):
            tf1.gradients(result, x)

    def test_programs_feed_each_other_and_the_host(self) -> None:
        (first,) = _compile(lambda x: x * 2, [X])
        on_host = first + 1.0
        (second,) = _compile(lambda x: x * 3, [on_host])
        np.testing.assert_array_equal(_run(second), (X * 2 + 1) * 3)

    def test_control_dependencies_outside_are_kept(self) -> None:
        with tf.device("/device:CPU:0"):
            variable = tf1.get_variable("host", initializer=0.0, use_resource=True)
            with tf.control_dependencies([variable.assign_add(1.0)]):
                with scopes.ipu_scope(IPU):
                    (result,) = ipu_compiler.compile(lambda x: x * 2, [X])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(result)
            assert session.run(variable) == 1.0

    def test_functions_are_inlined(self) -> None:
        @tf.function
        def square(x: tf.Tensor) -> tf.Tensor:
            return x * x

        @tf.function(jit_compile=True)
        def cube(x: tf.Tensor) -> tf.Tensor:
            return square(x) * x

        (result,) = _compile(lambda x: cube(x) + square(x), [X])
        np.testing.assert_array_equal(_run(result), X**3 + X**2)

    @pytest.mark.parametrize("version", [1, 2])
    def test_control_flow_of_both_versions_runs(self, version: int) -> None:
        def net(x: tf.Tensor) -> Any:
            _, y = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2), [0, x])
            z = tf.cond(tf.reduce_sum(x) > 0, lambda: y, lambda: -y)
            return z, tf1.gradients(tf.reduce_sum(z * z), x)[0]

        (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
        try:
            results = _run(_compile(net, [X]))
        finally:
            tf1.enable_control_flow_v2()
        np.testing.assert_array_equal(results[0], X * 8)
        np.testing.assert_array_equal(results[1], X * 128)

    def test_checks_are_dropped(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([tf1.Assert(tf.reduce_sum(x) < 0, ["no", x])]):
                return tf.debugging.check_numerics(x / 0.0, "infinite")

        (result,) = _compile(net, [X])
        np.testing.assert_array_equal(_run(result), [np.inf] * 4)

    def test_names_of_ops_do_not_clash(self) -> None:
        results = [_compile(lambda x: tf.exp(x, name="same"), [X])[0] for _ in range(3)]
        assert len({result.op.name for result in results}) == 3
        np.testing.assert_allclose(_run(results), [np.exp(X)] * 3, rtol=1e-6)


@pytest.mark.parametrize("in_scope", [True, False], ids=["scope", "named by an op"])
def test_functions_of_tensorflow_1_run(in_scope: bool) -> None:
    @legacy_function.Defun(tf.float32, tf.float32)
    def both(x: tf.Tensor, y: tf.Tensor) -> Any:
        return x + y, x - y

    @legacy_function.Defun(tf.float32)
    def nested(x: tf.Tensor) -> tf.Tensor:
        total, difference = both(x, 1.0)
        return total * difference

    def program(x: tf.Tensor) -> tf.Tensor:
        with tf.device(None if in_scope else IPU):
            return nested(x) * 2.0

    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope(IPU) if in_scope else contextlib.nullcontext():
            (result,) = ipu_compiler.compile(program, [X])
        np.testing.assert_array_equal(session.run(result), 2 * (X * X - 1))
