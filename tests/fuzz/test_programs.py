"""Random programs compute the same on the IPU as in plain TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.distributed import ipu_strategy
from tests.fuzz import programs, support
from tests.support.programs import replicas as replica_helpers

tf1 = tf.compat.v1
# Both run the same kernels, of which the compiler's passes may fuse some.
TOLERANCE = 1e-5


def _check(program: programs.Program, results: list[np.ndarray]) -> None:
    """Compares with eager TensorFlow or, where graphs differ from that, with TensorFlow's graph.

    Eager ops take a twentieth of the time. TensorFlow's arithmetic optimizer may change a result:
    of a sum with a scalar from a loop, 2.15 loses the elements.
    """

    def build(*arguments: tf.Tensor) -> list[tf.Tensor]:
        return programs.results(program, arguments)

    inputs = list(map(tf.constant, programs.inputs()))
    with tf.device("/device:CPU:0"):
        try:
            _assert_same(results, build(*inputs))
        except AssertionError:
            _assert_same(results, tf.function(build, autograph=False)(*inputs))


def _assert_same(results: list[np.ndarray], expected: list[tf.Tensor]) -> None:
    assert len(results) == len(expected)
    for result, reference in zip(results, expected):
        assert result.dtype == reference.dtype.as_numpy_dtype
        assert result.shape == tuple(reference.shape)
        np.testing.assert_allclose(result, reference.numpy(), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("replicas", [1, 2])
def test_programs_of_a_strategy_equal_tensorflow(
    replicas: int, request: pytest.FixtureRequest
) -> None:
    replica_helpers.configure(replicas)
    strategy = ipu_strategy.IPUStrategy()

    def check(program: programs.Program) -> None:
        with strategy.scope():

            @tf.function(jit_compile=True, autograph=False)
            def run(*arguments: tf.Tensor) -> list[tf.Tensor]:
                return programs.results(program, arguments)

            results = strategy.run(run, tuple(map(tf.constant, programs.inputs())))
        _check(program, [result.numpy() for result in results])

    name = "programs of one replica" if replicas == 1 else "programs of two replicas"
    support.run(request, name, programs.PROGRAMS, check)


@pytest.mark.parametrize("compiled", [True, False])
def test_programs_of_a_session_equal_tensorflow(
    compiled: bool, request: pytest.FixtureRequest
) -> None:
    replica_helpers.configure(1)

    def check(program: programs.Program) -> None:
        with tf.Graph().as_default(), tf1.Session() as session:

            def build(*arguments: tf.Tensor) -> list[tf.Tensor]:
                return programs.results(program, arguments)

            inputs = list(map(tf.constant, programs.inputs()))
            with scopes.ipu_scope("/device:IPU:0"):
                results = ipu_compiler.compile(build, inputs) if compiled else build(*inputs)
            arrays = session.run(results)
        _check(program, arrays)

    name = "graph programs" if compiled else "placed ops"
    support.run(request, name, programs.PROGRAMS, check)
