"""Programs without an IPU behave as in stock TensorFlow, though the hooks are installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.runtime import system
from tests.support.checkout.repository import ROOT
from tests.support.checkout.versions import has_tensorflow
from tests.support.programs import host_programs as host_programs_lib

X = np.array([1.0, 2.0, 3.0], np.float32)

# What is replaced. Besides, TensorFlow's runtime has `_gradient_function` for its tapes.
_REPLACED = """
    autograph.core.config.CONVERSION_RULES
    client.session.BaseSession.__init__
    client.session.BaseSession._call_tf_sessionprun
    client.session.BaseSession._call_tf_sessionrun
    data.ops.dataset_ops.Dataset.__iter__
    data.ops.dataset_ops.DatasetV2.__iter__
    eager.backprop._gradient_function
    eager.context.Context._set_global_seed
    eager.context.Context.call_function
    eager.polymorphic_function.polymorphic_function.Function.__call__
    eager.record.record_operation
    eager.record.record_operation_backprop_only
    framework.func_graph.FuncGraph.__init__
    ops.control_flow_state.ZerosLike
    ops.control_flow_util.EnableControlFlowV2
    ops.control_flow_v2_func_graphs.ControlFlowFuncGraph.__init__
    ops.gen_nn_ops.fused_batch_norm_v3
    ops.gradients_util._MaybeCompile
"""


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    yield
    assert cache.executables() == []
    system.reset_ipu_configuration()


@pytest.fixture(scope="module")
def host_programs(run_python: Any) -> Any:
    """Output of `tests/support/programs/host_programs.py`: one process (10 s) for all hooks.

    Its programs use `tf.keras` before they import ipu, so importing that cannot make it Keras 2.
    """
    code = "from tests.support.programs import host_programs; host_programs.main()"
    environment = {"TF_USE_LEGACY_KERAS": "1"} if has_tensorflow(">=2.16") else {}
    return json.loads(run_python(code, env=environment, cwd=ROOT).stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [program.__name__ for program in host_programs_lib.PROGRAMS])
def test_a_program_without_ipus_is_that_of_tensorflow(host_programs: Any, name: str) -> None:
    stock, with_hooks, after_use = host_programs["found"][name]
    assert with_hooks == stock
    assert after_use == stock


def test_what_is_replaced(host_programs: Any) -> None:
    expected = [f"tensorflow.python.{name}" for name in _REPLACED.split()]
    assert host_programs["replaced"] == expected


def test_installing_again_does_nothing() -> None:
    call, iterate = polymorphic_function.Function.__call__, dataset_ops.DatasetV2.__iter__
    tensorflow_hooks.install()
    assert polymorphic_function.Function.__call__ is call
    assert dataset_ops.DatasetV2.__iter__ is iterate


@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_functions_run_on_the_cpu(jit_compile: bool | None) -> None:
    function = tf.function(lambda x: tf.exp(x) * 2, jit_compile=jit_compile)
    result = function(tf.constant(X))
    assert result.device.endswith("/device:CPU:0")
    np.testing.assert_allclose(result, np.exp(X) * 2, rtol=1e-6)


def test_jit_compiled_function_still_goes_to_xla() -> None:
    function = tf.function(lambda x: tf.exp(x), jit_compile=True)
    function(tf.constant(X))
    text = function.experimental_get_compiler_ir(tf.constant(X))(stage="hlo")
    assert "exponential" in text


def test_jit_function_without_xla_kernel_is_refused() -> None:
    function = tf.function(lambda x: tf.strings.as_string(x), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="XLA|unsupported"):
        function(tf.constant(X))


def test_jit_compiled_function_with_variable_of_ipu() -> None:
    with ipu_strategy.IPUStrategy().scope():
        variable = tf.Variable(X, name="mine")
    function = tf.function(lambda: variable + 1.0, jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="variable 'mine' on /device:IPU:0, b"):
        function()
    np.testing.assert_array_equal(tf.function(lambda: variable + 1.0)(), X + 1)


def test_a_jit_compiled_function_runs_in_another_function() -> None:
    inner = tf.function(lambda x: x * 2, jit_compile=True)
    outer = tf.function(lambda x: inner(x) + 1)
    np.testing.assert_array_equal(outer(tf.constant(X)), X * 2 + 1)


def test_function_without_jit_under_the_ipu_runs_there() -> None:
    with tf.device("/device:IPU:0"):
        result = tf.function(lambda x: tf.exp(x))(tf.constant(X))
    np.testing.assert_allclose(result, np.exp(X), rtol=1e-6)
    assert len(cache.executables()) == 1
    cache.CACHE.clear(system.current())


def test_functions_run_eagerly_when_asked_to() -> None:
    seen: list[bool] = []

    @tf.function(jit_compile=True)
    def step(x: tf.Tensor) -> tf.Tensor:
        seen.append(tf.executing_eagerly())
        return x * 2

    tf.config.run_functions_eagerly(True)
    try:
        with tf.device("/device:IPU:0"):
            step(tf.constant(X))
    finally:
        tf.config.run_functions_eagerly(False)
    assert seen == [True]


def test_function_used_on_ipu_still_works_on_cpu() -> None:
    function = tf.function(lambda x: tf.exp(x), jit_compile=True)
    on_cpu = function(tf.constant(X)).numpy()
    with tf.device("/device:IPU:0"):
        on_ipu = function(tf.constant(X)).numpy()
    again = function(tf.constant(X))
    assert again.device.endswith("/device:CPU:0")
    np.testing.assert_allclose([on_ipu, again], [on_cpu, on_cpu], rtol=1e-6)
    assert len(cache.executables()) == 1
    cache.CACHE.clear(system.current())


def test_attributes_of_functions_are_those_of_tensorflow() -> None:
    function = tf.function(lambda x: x * 2, jit_compile=True)
    function(tf.constant(X))
    assert function.experimental_get_tracing_count() == 1
    assert polymorphic_function.Function.__call__.__name__ == "__call__"


def test_iterating_a_dataset_without_ipus_is_stock() -> None:
    iterator = iter(tf.data.Dataset.range(3))
    assert type(iterator) is iterator_ops.OwnedIterator
    assert [int(value) for value in iterator] == [0, 1, 2]


def test_iterating_a_dataset_after_a_strategy_is_stock() -> None:
    with ipu_strategy.IPUStrategy().scope():
        pass
    assert type(iter(tf.data.Dataset.range(3))) is iterator_ops.OwnedIterator


def test_iterating_a_dataset_in_another_strategy_is_stock() -> None:
    with tf.distribute.get_strategy().scope():
        assert type(iter(tf.data.Dataset.range(3))) is iterator_ops.OwnedIterator
    with tf.distribute.OneDeviceStrategy("/device:CPU:0").scope():
        assert type(iter(tf.data.Dataset.range(3))) is iterator_ops.OwnedIterator


def test_iterating_a_dataset_when_strategy_does_not_care() -> None:
    with ipu_strategy.IPUStrategy(enable_dataset_iterators=False).scope():
        iterator = iter(tf.data.Dataset.range(3))
    assert type(iterator) is iterator_ops.OwnedIterator


def test_iterating_a_dataset_in_a_function_is_stock() -> None:
    @tf.function
    def total() -> tf.Tensor:
        result = tf.constant(0, tf.int64)
        for value in tf.data.Dataset.range(4):
            result += value
        return result

    assert total().numpy() == 6
    with ipu_strategy.IPUStrategy().scope():
        assert total().numpy() == 6


def test_control_flow_without_scopes_gets_no_attributes() -> None:
    with tf.Graph().as_default() as graph:
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        (loop,) = (op for op in graph.get_operations() if "While" in op.type)
        body = graph._get_function(loop.get_attr("body").name).graph
    assert not any("_Xla" in key for op in body.get_operations() for key in op.node_def.attr)


def test_keras_training_is_untouched() -> None:
    initializer = tf.keras.initializers.GlorotUniform(seed=1)
    layer = tf.keras.layers.Dense(1, kernel_initializer=initializer, input_shape=(3,))
    model = tf.keras.Sequential([layer])
    model.compile(tf.keras.optimizers.SGD(0.1), "mse", jit_compile=True)
    start = [weight.numpy() for weight in model.weights]
    x, y = np.stack([X, -X]), np.float32([[1], [2]])
    model.fit(x, y, batch_size=2, epochs=1, verbose=0)
    error = x @ start[0] + start[1] - y
    np.testing.assert_allclose(model.weights[0], start[0] - 0.1 * (x.T @ error), rtol=1e-5)
    np.testing.assert_allclose(model.weights[1], start[1] - 0.1 * error.sum(0), rtol=1e-5)


def test_batch_normalization_elsewhere_is_as_before():
    short = tf.ones([4], tf.float16)
    with pytest.raises((TypeError, tf.errors.OpError)):
        tf.compat.v1.nn.fused_batch_norm(tf.ones([1, 2, 2, 4], tf.float16), short, short)
