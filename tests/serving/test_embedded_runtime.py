"""Tests of `embedded_runtime`: engines that answer calls."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops, pipelining_ops
from tensorflow_ipu.runtime import native, system
from tensorflow_ipu.serving import embedded_runtime
from tests.support.programs.applications import call, compiled, configure, infeed, loop

tf1 = tf.compat.v1
start = embedded_runtime.embedded_runtime_start
ITERATIONS = 3


def _batch(value: float) -> np.ndarray:
    return np.full(2, value, np.float32)


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that sends the square of its input."""
    return compiled(
        loop(lambda x: x * x, ITERATIONS), tmp_path_factory.mktemp("squares") / "x.poplar_exec"
    )


class TestCalls:
    def test_each_gets_its_answer(self, squares: str) -> None:
        context = start(squares, [], "squares")
        for value in range(3 * ITERATIONS + 1):
            np.testing.assert_array_equal(call(context, _batch(value))[0], _batch(value**2))

    def test_what_the_context_says(self, squares: str) -> None:
        context = start(tf.constant(squares), (), "said")
        assert context.name() == "said"
        assert context.start_output().numpy() == b"said"
        assert context.output_types() == [tf.float32]
        signature = context.signature()
        assert signature.inputs == ()
        assert [spec.shape for spec in signature.streamed_inputs] == [[2]]
        assert [spec.dtype for spec in signature.streamed_outputs] == [tf.float32]
        assert repr(context).startswith("EmbeddedRuntimeContext('said'")

    def test_start_and_call_gives_results_and_context(self, squares: str) -> None:
        results, context = embedded_runtime.embedded_runtime_start_and_call(
            squares, [], [_batch(3)], "both"
        )
        np.testing.assert_array_equal(results[0], _batch(9))
        np.testing.assert_array_equal(call(context, _batch(4))[0], _batch(16))

    def test_several_feeds_are_one_list(self, tmp_path: Path) -> None:
        # In the order of the queues, not of their use.
        first, second = infeed((2,), (3,)), infeed((1,))
        left, right = IPUOutfeedQueue(), IPUOutfeedQueue()

        def body(c: Any) -> Any:
            a, b = first._dequeue()
            return right.enqueue(tf.reduce_sum(a) + c), left.enqueue((b, c * 2.0))

        program = lambda: loops.repeat(ITERATIONS, body, [], second)  # noqa: E731
        context = start(compiled(program, tmp_path / "x"), [], f"feeds {tmp_path}")
        for value in range(5):
            b, twice, total = call(context, _batch(value), np.ones(3, "f"), np.ones(1, "f"))
            np.testing.assert_array_equal(b, [1, 1, 1])
            np.testing.assert_array_equal(twice, [2])
            np.testing.assert_array_equal(total, [2 * value + 1])

    def test_integers_are_those_of_the_device(self, tmp_path: Path) -> None:
        source, sink = infeed((2,), dtype=np.int64), IPUOutfeedQueue()
        program = lambda: loops.repeat(2, lambda x: sink.enqueue(x + 1), [], source)  # noqa: E731
        context = start(compiled(program, tmp_path / "x"), [], f"wide {tmp_path}")
        (got,) = call(context, np.array([5, 2**33 + 7]))
        np.testing.assert_array_equal(got, [6, 8])

    def test_results_come_without_outfeeds(self, tmp_path: Path) -> None:
        path = compiled(lambda x, y: (x + y, x - y), tmp_path / "x", [_batch(0), _batch(0)])
        context = start(path, [_batch(5), _batch(2)], f"results {tmp_path}")
        for _ in range(2):
            np.testing.assert_array_equal(call(context), [_batch(7), _batch(3)])


class TestState:
    def test_variables_stay_with_the_engine(self, tmp_path: Path) -> None:
        total = tf.Variable(_batch(0), name="total")
        path = compiled(loop(lambda x: total.assign_add(x).read_value()), tmp_path / "x")
        names = [f"{kind} {tmp_path}" for kind in ("one", "other")]
        contexts = [start(path, {"XLA_Args/total": _batch(10)}, name) for name in names]
        for step in range(1, 8):
            np.testing.assert_array_equal(call(contexts[0], _batch(1))[0], _batch(10 + step))
        np.testing.assert_array_equal(call(contexts[1], _batch(1))[0], _batch(11))
        # The same name is the same engine.
        again = start(path, [_batch(0)], names[0])
        np.testing.assert_array_equal(call(again, _batch(1))[0], _batch(18))
        np.testing.assert_array_equal(total, _batch(0))

    def test_one_name_is_one_program(self, squares: str, tmp_path: Path) -> None:
        start(squares, [], "taken")
        other = compiled(loop(lambda x: x + 1.0), tmp_path / "x")
        with pytest.raises(tf.errors.AlreadyExistsError, match="called taken runs another program"):
            start(other, [], "taken")

    def test_no_configuration_is_needed_or_in_the_way(self, squares: str) -> None:
        context = start(squares, [], "configured")
        call(context, _batch(1))  # in the middle of a run
        assert native.counts().launches == 0
        configure(2)
        system.reset_ipu_configuration()
        np.testing.assert_array_equal(call(context, _batch(2))[0], _batch(4))


def _residual(x: tf.Tensor) -> tf.Tensor:
    kernel = tf.constant(np.random.default_rng(1).normal(0, 0.2, [3, 3, 3, 3]), tf.float32)
    for _ in range(4):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), [0.1, 0.2, 0.3]) + x)
    return x


@pytest.mark.parametrize("replicas", [2, 4])
def test_residual_convolutions_on_replicas_answer_as_on_one(tmp_path: Path, replicas: int) -> None:
    images = np.random.default_rng(0).standard_normal((12, 2, 8, 8, 3)).astype(np.float32)
    answers = []
    for count in (1, replicas):
        configure(count)
        path = compiled(loop(_residual, 4, (2, 8, 8, 3)), tmp_path / f"{count}")
        context = start(path, [], f"residual {path}", timeout=1000)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers.append(list(pool.map(lambda image: call(context, image)[0], images)))  # noqa: B023
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-5, atol=1e-6)


class TestFlushing:
    def test_a_pipeline_answers_a_single_call(self, tmp_path: Path) -> None:
        configure(2)
        source, sink = infeed((2,)), IPUOutfeedQueue()

        def program() -> Any:
            return pipelining_ops.pipeline(
                [lambda x: x * 2.0, lambda x: x + 1.0],
                gradient_accumulation_count=8,
                infeed_queue=source,
                outfeed_queue=sink,
            )

        path = compiled(program, tmp_path / "x")
        context = start(path, [], f"pipeline {tmp_path}", timeout=1000)
        for value in range(11):
            np.testing.assert_array_equal(call(context, _batch(value))[0], _batch(2 * value + 1))

    def test_call_is_flushed_where_replicas_wait(self, tmp_path: Path) -> None:
        configure(2)

        def body(x: tf.Tensor) -> Any:
            return x, cross_replica_ops.cross_replica_sum(x)

        context = start(compiled(loop(body), tmp_path / "x"), [], f"replicas {tmp_path}", 1000)
        # The other replica has zeros, because nobody else calls.
        for value in range(8):
            np.testing.assert_array_equal(call(context, _batch(value)), [_batch(value)] * 2)

    def test_many_batches_may_have_one_answer(self, tmp_path: Path) -> None:
        source, sink = infeed((2,)), IPUOutfeedQueue()

        def program() -> Any:
            total = loops.repeat(4, lambda total, x: total + x, [tf.zeros([2])], source)
            return sink.enqueue(total)

        context = start(compiled(program, tmp_path / "x"), [], f"sum {tmp_path}", 1000)
        np.testing.assert_array_equal(call(context, _batch(3))[0], _batch(3))


class TestManyAtOnce:
    def test_threads_call_several_engines(self, squares: str) -> None:
        contexts = [start(squares, [], f"engine {number}") for number in range(3)]

        def calls(thread: int) -> None:
            for value in range(20):
                (got,) = call(contexts[thread % 3], _batch(100 * thread + value))
                np.testing.assert_array_equal(got, _batch((100 * thread + value) ** 2))

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for future in [pool.submit(calls, thread) for thread in range(6)]:
                future.result()

    def test_several_sessions_call_one_engine(self, squares: str) -> None:
        def calls(thread: int) -> None:
            with tf.Graph().as_default(), tf1.Session() as session:
                x = tf1.placeholder(tf.float32, [2])
                context = start(squares, [], "in sessions")
                y = embedded_runtime.embedded_runtime_call([x], context)
                for value in range(10):
                    (got,) = session.run(y, {x: _batch(100 * thread + value)})
                    np.testing.assert_array_equal(got, _batch((100 * thread + value) ** 2))

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for future in [pool.submit(calls, thread) for thread in range(3)]:
                future.result()

    def test_graph_starts_with_the_values_of_that_time(self, tmp_path: Path) -> None:
        path = compiled(lambda x: x * 2.0, tmp_path / "x", [_batch(0)])

        @tf.function
        def serve(x: tf.Tensor) -> Any:
            context = start(path, [x], f"later {tmp_path}")
            return embedded_runtime.embedded_runtime_call([], context)

        np.testing.assert_array_equal(serve(tf.constant(_batch(4)))[0], _batch(8))


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_exception_fails_its_call_only(tmp_path: Path, replicas: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.floating_point_behaviour.div0 = True
    config.configure_ipu_system()
    path = compiled(loop(lambda x: 1.0 / x, 100), tmp_path / "x")
    context = start(path, [], f"traps {tmp_path}")
    for _ in range(2):
        np.testing.assert_array_equal(call(context, _batch(4))[0], _batch(0.25))
        with pytest.raises(tf.errors.InternalError) as caught:
            call(context, _batch(0))
        for phrase in (
            "[Poplar][Execute engine] application_runtime_error: [Recovery action: IPU_RESET] "
            "Tiles in excepted state",
            "IPU will be reset the next time a program is executed",
        ):
            assert phrase in str(caught.value)


_ELSEWHERE = """
import sys
import numpy as np
from tensorflow.python.ipu import embedded_runtime

context = embedded_runtime.embedded_runtime_start(sys.argv[1], [], "elsewhere")
x = np.array([[1.0, 2.0]], np.float32)
print(*(embedded_runtime.embedded_runtime_call([x], context)[0].numpy()[0] for _ in range(3)))
embedded_runtime.embedded_runtime_call([x], context)
"""


def test_applications_run_in_a_process_without_the_model(run_program: Any, tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        source, sink = infeed((1, 2)), IPUOutfeedQueue()

        def body(x: tf.Tensor) -> Any:
            with tf1.variable_scope("model", use_resource=True, reuse=tf1.AUTO_REUSE):
                weight = tf1.get_variable("w", initializer=np.float32([[1, 2], [3, 4]]))
                return sink.enqueue(tf.matmul(x, weight))

        from tensorflow_ipu.serving.application_compile_op import (
            experimental_application_compile_op,
        )

        with scopes.ipu_scope("/device:IPU:0"):
            path = experimental_application_compile_op(
                lambda: loops.repeat(10, body, [], source),
                output_path=str(tmp_path / "x.poplar_exec"),
                freeze_variables=True,
            )
        session.run(tf1.global_variables_initializer())
        session.run(path)
    process = run_program(_ELSEWHERE, args=[str(tmp_path / "x.poplar_exec")], cwd=tmp_path)
    assert process.stdout.split() == ["[", "7.", "10.]"] * 3
