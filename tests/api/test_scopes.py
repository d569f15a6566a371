"""Tests of the scopes: the attributes that they put on ops, and their effects on programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.runtime import system
from tests.support.programs import replicas

tf1 = tf.compat.v1
IPU = "/device:IPU:0"
X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
_FRONTEND = "_XlaFrontendAttributes"
_SHARDING = "_XlaSharding"
_OUTSIDE = "_xla_outside_compilation"


def _configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    _configure(1)
    yield
    system.reset_ipu_configuration()


@pytest.fixture
def graph(configured: None) -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def _compile(computation: Callable[..., Any], inputs: Any = None) -> Any:
    with scopes.ipu_scope(IPU):
        return ipu_compiler.compile(computation, inputs)


def _op() -> tf.Operation:
    return tf.constant(1.0).op


def _frontend(op: tf.Operation | None = None) -> dict[str, str] | None:
    """Returns the frontend attributes of `op`, or of an op made now."""
    attributes = (op or _op()).node_def.attr
    if _FRONTEND not in attributes:
        return None
    return dict(xla_data_pb2.FrontendAttributes.FromString(attributes[_FRONTEND].s).map)


def _shard(op: tf.Operation | None = None) -> list[int] | None:
    """Returns the IPUs that `op`, or an op made now, is on."""
    attributes = (op or _op()).node_def.attr
    if _SHARDING not in attributes:
        return None
    sharding = xla_data_pb2.OpSharding.FromString(attributes[_SHARDING].s)
    assert sharding.type == xla_data_pb2.OpSharding.MAXIMAL
    return list(sharding.tile_assignment_devices)


@pytest.mark.usefixtures("graph")
class TestIpuScope:
    """`ipu_scope` and `ipu_jit_scope`."""

    def test_the_scope_sets_device_and_attributes(self) -> None:
        with scopes.ipu_scope("/device:IPU:1"):
            op = _op()
        assert op.device == "/device:IPU:1"
        assert op.get_attr("_XlaCompile") is True
        assert op.get_attr("_XlaScope") == b"jit_scope_ipu_0"
        assert op.get_attr("_XlaSeparateCompiledGradients") is False

    def test_attributes_end_with_the_scope(self) -> None:
        with scopes.ipu_scope(IPU):
            pass
        op = _op()
        assert op.device == ""
        assert "_XlaCompile" not in op.node_def.attr
        assert "_XlaScope" not in op.node_def.attr

    def test_ends_after_an_exception(self) -> None:
        with pytest.raises(KeyError), scopes.ipu_scope(IPU):
            raise KeyError
        assert _op().device == ""

    def test_the_scope_makes_resource_variables(self) -> None:
        with scopes.ipu_scope(IPU):
            variable = tf1.get_variable("w", [2])
        assert variable.handle.dtype == tf.resource
        assert variable.name == "w:0"
        assert variable.device == IPU

    def test_gives_the_variable_scope(self) -> None:
        with scopes.ipu_scope(IPU) as scope:
            assert scope.use_resource

    def test_keeps_the_name_of_the_variable_scope(self) -> None:
        with tf1.variable_scope("outer"), scopes.ipu_scope(IPU):
            assert tf1.get_variable("w", [2]).name == "outer/w:0"

    def test_uncompiled_ops_run_on_the_device(self) -> None:
        x = tf1.placeholder(tf.float32, [4])
        with scopes.ipu_scope(IPU):
            variable = tf1.get_variable("w", initializer=2.0)
            result = x * variable
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            np.testing.assert_array_equal(session.run(result, {x: X}), X * 2)

    @pytest.mark.parametrize(
        ("scope", "expected"), [(3, b"jit_scope_ipu_3"), ("a", b"jit_scope_ipu_a")]
    )
    def test_a_jit_scope_sets_its_attributes(self, scope: int | str, expected: bytes) -> None:
        with scopes.ipu_jit_scope(scope):
            op = _op()
        assert op.get_attr("_XlaCompile") is True
        assert op.get_attr("_XlaScope") == expected
        assert op.get_attr("_XlaSeparateCompiledGradients") is False
        assert op.device == ""

    def test_jit_scopes_nest(self) -> None:
        with scopes.ipu_jit_scope(1):
            with scopes.ipu_jit_scope(2):
                assert _op().get_attr("_XlaScope") == b"jit_scope_ipu_2"
            assert _op().get_attr("_XlaScope") == b"jit_scope_ipu_1"


@pytest.mark.usefixtures("graph")
class TestShard:
    """`ipu_shard`."""

    @pytest.mark.parametrize(
        ("index", "expected"), [(0, [0]), (3, [3]), ([0, 1], [0, 1]), (np.int64(2), [2])]
    )
    def test_a_shard_sets_its_attribute(self, index: Any, expected: list[int]) -> None:
        with scopes.ipu_shard(index):
            assert _shard() == expected
        assert _shard() is None

    def test_an_inner_shard_overrides_the_outer(self) -> None:
        with scopes.ipu_shard(0):
            with scopes.ipu_shard(1):
                assert _shard() == [1]
            assert _shard() == [0]

    @pytest.mark.parametrize("index", [-2, 1.5, "0", None, [0, -2], [0, -1], True])
    def test_wrong_shards_are_refused(self, index: Any) -> None:
        with pytest.raises((ValueError, TypeError)):
            with scopes.ipu_shard(index):
                pass

    def test_the_index_minus_1_stands_for_all_ipus(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(0):
                y = tf.exp(x)
            with scopes.ipu_shard(-1):
                y = tf.sin(y)
            with scopes.ipu_shard(1):
                return tf.cos(y)

        x = np.float32([1, 2])
        got = replicas.run(2, lambda: net(tf.constant(x)), in_session=True)
        np.testing.assert_allclose(got, np.cos(np.sin(np.exp(x))), rtol=1e-6)
        (executable,) = cache.executables()
        assert executable.ipus_used == 2
        ipus = {record.type: record.ipus for record in executable.ops}
        assert (ipus["Exp"], ipus["Sin"], ipus["Cos"]) == ((0,), (0, 1), (1,))

    def test_all_ipus_of_one_are_that_one(self) -> None:
        def net() -> tf.Tensor:
            with scopes.ipu_shard(-1):
                return tf.sin(tf.constant([1.0]))

        got = replicas.run(1, net, in_session=True)
        np.testing.assert_allclose(got[0], np.sin([1.0]), rtol=1e-6)

    def test_results_do_not_depend_on_it(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(0):
                y = tf.exp(x)
            with scopes.ipu_shard(1):
                return y * 2

        _configure(2)
        (result,) = _compile(net, [X])
        with tf1.Session() as session:
            np.testing.assert_allclose(session.run(result), np.exp(X) * 2, rtol=1e-6)
        (executable,) = cache.executables()
        assert (executable.ipus_used, executable.replicas) == (2, 1)

    @pytest.mark.parametrize(("ipus", "highest", "replicas"), [(4, 0, 4), (4, 1, 2), (4, 2, 1)])
    def test_shards_decide_on_the_number_of_replicas(
        self, ipus: int, highest: int, replicas: int
    ) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(highest):
                return tf.exp(x)

        _configure(ipus)
        (result,) = _compile(net, [X])
        with tf1.Session() as session:
            session.run(result)
        assert [executable.replicas for executable in cache.executables()] == [replicas]

    def test_more_shards_than_ipus_are_refused(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(1):
                return tf.exp(x)

        (result,) = _compile(net, [X])
        pattern = "The number of shards needs to divide the number of IPUs"
        with tf1.Session() as session, pytest.raises(tf.errors.InternalError, match=pattern):
            session.run(result)


@pytest.mark.usefixtures("graph")
class TestFrontendAttribute:
    """`frontend_attribute` and the scopes built on it."""

    def test_a_frontend_attribute_ends_with_its_scope(self) -> None:
        with scopes.frontend_attribute("KEY", "value"):
            assert _frontend() == {"KEY": "value"}
        assert _frontend() is None

    def test_nested_keys_merge(self) -> None:
        with scopes.frontend_attribute("A", "1"):
            with scopes.frontend_attribute("B", "2"):
                assert _frontend() == {"A": "1", "B": "2"}
            assert _frontend() == {"A": "1"}

    def test_inner_value_overrides_and_the_outer_comes_back(self) -> None:
        with scopes.frontend_attribute("A", "1"):
            with scopes.frontend_attribute("A", "2"):
                assert _frontend() == {"A": "2"}
            assert _frontend() == {"A": "1"}

    def test_restore_to_applies_without_a_previous_value(self) -> None:
        with scopes.frontend_attribute("A", "1", restore_to="none"):
            assert _frontend() == {"A": "1"}
        assert _frontend() == {"A": "none"}

    def test_restore_to_does_not_replace_a_previous_value(self) -> None:
        with scopes.frontend_attribute("A", "1"):
            with scopes.frontend_attribute("A", "2", restore_to="none"):
                assert _frontend() == {"A": "2"}
            assert _frontend() == {"A": "1"}
        assert _frontend() is None

    def test_what_was_restored_to_stays_in_later_scopes(self) -> None:
        with scopes.frontend_attribute("A", "1", restore_to="none"):
            pass
        with scopes.frontend_attribute("B", "2"):
            assert _frontend() == {"A": "none", "B": "2"}
        assert _frontend() == {"A": "none"}

    def test_ends_after_an_exception(self) -> None:
        with pytest.raises(KeyError), scopes.frontend_attribute("A", "1"):
            raise KeyError
        assert _frontend() is None

    @pytest.mark.parametrize(
        ("override", "value"), [(True, "THREESTATE_ON"), (False, "THREESTATE_OFF")]
    )
    def test_stochastic_rounding_sets_its_attribute(self, override: bool, value: str) -> None:
        with scopes.stochastic_rounding(override):
            assert _frontend() == {"STOCHASTIC_ROUNDING": value}
        assert _frontend() == {"STOCHASTIC_ROUNDING": "THREESTATE_UNDEFINED"}

    def test_stochastic_rounding_nests(self) -> None:
        with scopes.stochastic_rounding(True):
            with scopes.stochastic_rounding(False):
                assert _frontend() == {"STOCHASTIC_ROUNDING": "THREESTATE_OFF"}
            assert _frontend() == {"STOCHASTIC_ROUNDING": "THREESTATE_ON"}

    @pytest.mark.parametrize(
        ("dtype", "value"),
        [(np.float16, "F16"), (np.float32, "F32"), (tf.float16, "F16"), (tf.float32, "F32")],
    )
    def test_partials_type_sets_its_attribute(self, dtype: Any, value: str) -> None:
        with scopes.partials_type(dtype):
            assert _frontend() == {"PARTIALS_TYPE": value}
        assert _frontend() == {"PARTIALS_TYPE": "PRIMITIVE_TYPE_INVALID"}

    @pytest.mark.parametrize("dtype", [np.float64, np.int32, tf.bfloat16, "nonsense", None])
    def test_partials_of_another_type_are_refused(self, dtype: Any) -> None:
        with pytest.raises(ValueError, match="Only support float16, float32"):
            with scopes.partials_type(dtype):
                pass

    def test_attributes_are_set_inside_a_program(self) -> None:
        found: list[Any] = []

        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.partials_type(np.float16):
                y = tf.exp(x)
            found.append(_frontend(y.op))
            return y

        (result,) = _compile(net, [X])
        assert found == [{"PARTIALS_TYPE": "F16"}]
        with tf1.Session() as session:
            np.testing.assert_allclose(session.run(result), np.exp(X), rtol=1e-6)

    def test_around_a_program_reaches_its_ops(self) -> None:
        found: list[Any] = []

        def net(x: tf.Tensor) -> tf.Tensor:
            y = tf.exp(x)
            found.append(_frontend(y.op))
            return y

        with scopes.partials_type(np.float16):
            _compile(net, [X])
        assert found == [{"PARTIALS_TYPE": "F16"}]


@pytest.mark.usefixtures("graph")
class TestOutsideCompilation:
    """`outside_compilation_scope` in graph mode."""

    def test_attribute_has_a_unique_name(self) -> None:
        found: list[bytes] = []

        def net(x: tf.Tensor) -> Any:
            results = []
            for _ in range(2):
                with scopes.outside_compilation_scope("mine"):
                    results.append(x + 1)
                found.append(results[-1].op.get_attr(_OUTSIDE))
            assert _OUTSIDE not in (x + 1).op.node_def.attr
            return results

        _compile(net, [X])
        assert len(set(found)) == 2
        assert all(name.startswith(b"mine") for name in found)

    def test_python_runs_in_the_middle(self) -> None:
        seen: list[np.ndarray] = []

        def on_host(value: np.ndarray) -> np.ndarray:
            seen.append(value)
            return np.sort(value)[::-1].copy()

        def net(x: tf.Tensor) -> tf.Tensor:
            y = x * x
            with scopes.outside_compilation_scope():
                z = tf.numpy_function(on_host, [y], tf.float32)
                z.set_shape([4])
            return z + y

        (result,) = _compile(net, [X])
        with tf1.Session() as session:
            np.testing.assert_array_equal(session.run(result), X**2 + (X**2)[::-1])
        np.testing.assert_array_equal(seen, [X**2])

    def test_the_host_runs_ops_that_the_device_lacks(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope():
                wide = tf.cast(x, tf.float64)
                spectrum = tf.abs(tf.signal.fft(tf.cast(wide, tf.complex128)))
                y = tf.cast(spectrum, tf.float32)
            return y * 2

        (result,) = _compile(net, [X])
        with tf1.Session() as session:
            expected = np.abs(np.fft.fft(X)) * 2
            np.testing.assert_allclose(session.run(result), expected, rtol=1e-5)

    def test_host_runs_in_every_iteration_of_a_loop(self) -> None:
        seen: list[float] = []

        def on_host(value: np.ndarray) -> np.ndarray:
            seen.append(float(value))
            return value * np.float32(2)

        def body(v: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope():
                doubled = tf1.py_func(on_host, [v], tf.float32)
                doubled.set_shape([])
            return doubled + 1.0

        (result,) = _compile(lambda: loops.repeat(3, body, [1.0]))
        with tf1.Session() as session:
            assert session.run(result) == 15.0
        assert seen == [1.0, 3.0, 7.0]

    def test_a_host_computation_may_have_an_output_only(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope():
                constant = tf1.py_func(lambda: np.float32(5), [], tf.float32)
                constant.set_shape([])
            return x * constant

        (result,) = _compile(net, [X])
        with tf1.Session() as session:
            np.testing.assert_array_equal(session.run(result), X * 5)

    def test_a_host_computation_may_have_an_input_only(self) -> None:
        seen: list[float] = []

        def net(x: tf.Tensor) -> Any:
            with scopes.outside_compilation_scope():
                log = tf1.py_func(lambda value: seen.append(float(value)), [x[0]], [])
            return x * 2, log

        (result,) = _compile(net, [X])
        with tf1.Session() as session:
            np.testing.assert_array_equal(session.run(result), X * 2)
        assert seen == [1.0]

    def test_not_in_a_program(self) -> None:
        with pytest.raises(ValueError, match="only allowed in XLA context"):
            with scopes.outside_compilation_scope():
                pass
        with scopes.ipu_scope(IPU), pytest.raises(ValueError, match="only allowed in XLA context"):
            with scopes.outside_compilation_scope():
                pass

    def test_nested_scopes_are_refused(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope(), scopes.outside_compilation_scope():
                return x + 1

        with pytest.raises(ValueError, match="Illegal nesting of outside_compilation_scope"):
            _compile(net, [X])

    @pytest.mark.parametrize(
        "scope", [lambda: scopes.ipu_shard(1), lambda: scopes.partials_type(np.float16)]
    )
    def test_attributes_hold_in_loops_and_branches(self, scope: Any) -> None:
        found: list[Any] = []

        def note(v: tf.Tensor) -> tf.Tensor:
            found.append((_shard(v.op), _frontend(v.op)))
            return v

        def net(x: tf.Tensor) -> tf.Tensor:
            with scope():
                expected = (_shard(), _frontend())
                y = loops.repeat(2, lambda v: note(v + 1.0), [x])
                z = tf.cond(y[0] > 0, lambda: note(y + 2.0), lambda: note(y + 3.0))
            assert found == [expected] * 3
            assert expected != (None, None)
            return z

        _compile(net, [X])

    def test_nesting_through_a_loop_is_refused(self) -> None:
        def body(v: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope():
                return v + 1.0

        def net() -> tf.Tensor:
            with scopes.outside_compilation_scope():
                return loops.repeat(2, body, [1.0])

        with pytest.raises(ValueError, match="Illegal nesting of outside_compilation_scope"):
            _compile(net)

    def test_host_computation_without_input_and_output_is_refused(self) -> None:
        def net(x: tf.Tensor) -> Any:
            with scopes.outside_compilation_scope():
                alone = tf1.py_func(lambda: None, [], [])
            return x * 2, alone

        result = _compile(net, [X])
        pattern = "must have either input or output"
        with tf1.Session() as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
                session.run(result)

    def test_an_output_of_unknown_shape_is_refused(self) -> None:
        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope():
                y = tf1.py_func(lambda value: value, [x], tf.float32)
            return y * 2

        result = _compile(net, [X])
        pattern = "must be statically known"
        with tf1.Session() as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
                session.run(result)

    def test_error_on_the_host_ends_the_run(self) -> None:
        def fail(value: np.ndarray) -> np.ndarray:
            raise ValueError(f"host says {value[0]}")

        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope():
                y = tf1.py_func(fail, [x], tf.float32)
                y.set_shape([4])
            return y * 2

        result = _compile(net, [X])
        with tf1.Session() as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="host says 1.0"):
                session.run(result)


class TestInFunctions:
    """Scopes in TensorFlow 2."""

    def test_outside_compilation_runs_on_host_in_a_function(self) -> None:
        seen: list[np.ndarray] = []

        def on_host(value: tf.Tensor) -> tf.Tensor:
            seen.append(value.numpy())
            return value + 100.0

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            y = x * 2
            with scopes.outside_compilation_scope():
                z = tf.py_function(on_host, [y], tf.float32)
                z.set_shape([4])
            return z - y

        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            result = strategy.run(step, [tf.constant(X)])
        np.testing.assert_array_equal(result, [100] * 4)
        np.testing.assert_array_equal(seen, [X * 2])

    def test_outside_compilation_in_a_plain_function_is_refused(self) -> None:
        @tf.function
        def step(x: tf.Tensor) -> tf.Tensor:
            with scopes.outside_compilation_scope():
                return x + 1

        with pytest.raises(ValueError, match="only allowed in XLA context"):
            step(tf.constant(X))

    def test_shard_and_attributes_are_set_in_a_function(self) -> None:
        found: list[Any] = []

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(1), scopes.stochastic_rounding(False):
                y = tf.exp(x)
            found.append((_shard(y.op), _frontend(y.op)))
            return y

        _configure(2)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            np.testing.assert_allclose(strategy.run(step, [tf.constant(X)]), np.exp(X), rtol=1e-6)
        assert found == [([1], {"STOCHASTIC_ROUNDING": "THREESTATE_OFF"})]
        (executable,) = cache.executables()
        assert executable.ipus_used == 2

    def test_gradients_follow_their_forward_op(self) -> None:
        shards: dict[str, Any] = {}

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(x)
                with scopes.ipu_shard(1):
                    y = tf.tanh(x)
            with scopes.ipu_shard(0):
                gradient = tape.gradient(y, x)
            operations = tf1.get_default_graph().get_operations()
            shards.update({op.type: _shard(op) for op in operations})
            return gradient

        _configure(2)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            strategy.run(step, [tf.constant(X)])
        assert shards["Tanh"] == [1]
        assert shards["TanhGrad"] == [1]
