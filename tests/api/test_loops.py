"""Tests of `loops.repeat` and `loops.while_loop` in graph mode and in a `tf.function`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.runtime import system

tf1 = tf.compat.v1
IPU = "/device:IPU:0"


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    yield
    system.reset_ipu_configuration()


@pytest.fixture
def graph(configured: None) -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def _compile(computation: Callable[..., Any], inputs: Any = None) -> Any:
    with scopes.ipu_scope(IPU):
        return ipu_compiler.compile(computation, inputs)


def _run(computation: Callable[..., Any], inputs: Any = None, feeds: Any = None) -> Any:
    """Compiles and runs once; returns the results, and the variables afterwards."""
    fetches = _compile(computation, inputs)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        results = session.run(fetches, feeds)
        return results, session.run(tf1.global_variables())


def _counter(name: str = "counter") -> tf.Variable:
    with tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
        return tf1.get_variable(name, [], initializer=tf1.zeros_initializer())


def _queue(elements: int = 10) -> IPUInfeedQueue:
    return IPUInfeedQueue(tf.data.Dataset.range(elements).map(lambda i: tf.cast(i, tf.float32)))


@pytest.mark.usefixtures("graph")
class TestRepeat:
    """Counts and values."""

    @pytest.mark.parametrize("version", [True, False])
    @pytest.mark.parametrize("n", [0, 1, 7])
    def test_repeat_runs_the_number_of_iterations(self, n: int, version: bool) -> None:
        def net(x: tf.Tensor) -> Any:
            return loops.repeat(n, lambda v: v + 1.0, [x], use_while_v1=version)

        assert _run(net, [np.float32(0.5)])[0] == [n + 0.5]

    @pytest.mark.parametrize("n", [0, 5])
    def test_number_may_be_a_tensor(self, n: int) -> None:
        count = tf1.placeholder(tf.int32, [])
        results, _ = _run(lambda i: loops.repeat(i, lambda v: v * 2.0, [1.0]), [count], {count: n})
        assert results == [2.0**n]

    def test_several_values_are_carried(self) -> None:
        def net() -> Any:
            return loops.repeat(10, lambda a, b: (b, a + b), [tf.constant(0), tf.constant(1)])

        assert _run(net)[0] == [55, 89]

    def test_a_single_input_needs_no_list(self) -> None:
        assert _run(lambda: loops.repeat(3, lambda v: v + 1.0, 1.0))[0] == [4.0]

    def test_returned_numbers_become_tensors(self) -> None:
        assert _run(lambda: loops.repeat(3, lambda v: 7.0, [1.0]))[0] == [7.0]

    def test_tensors_of_outside_can_be_used(self) -> None:
        def net(x: tf.Tensor) -> Any:
            return loops.repeat(3, lambda v: v + x, [tf.zeros([2])])

        np.testing.assert_array_equal(_run(net, [np.float32([1, 2])])[0][0], [3, 6])

    def test_nested_loops_multiply(self) -> None:
        def inner(total: tf.Tensor) -> tf.Tensor:
            return loops.repeat(4, lambda v: v + 1.0, [total])

        assert _run(lambda: loops.repeat(3, inner, [0.0]))[0] == [12.0]

    def test_nested_with_number_that_depends_on_outer_loop(self) -> None:
        def outer(i: tf.Tensor, total: tf.Tensor) -> Any:
            return i + 1, loops.repeat(i, lambda v: v + 1.0, [total])

        assert _run(lambda: loops.repeat(5, outer, [tf.constant(0), 0.0]))[0] == [5, 10.0]

    def test_a_tensor_array_is_carried(self) -> None:
        def net() -> tf.Tensor:
            array = tf.TensorArray(tf.float32, size=4, element_shape=[])

            def body(i: tf.Tensor, array: tf.TensorArray) -> Any:
                return i + 1, array.write(i, tf.cast(i * i, tf.float32))

            return loops.repeat(4, body, [tf.constant(0), array])[1].stack()

        np.testing.assert_array_equal(_run(net)[0][0], [0, 1, 4, 9])

    def test_gradients_go_through_a_loop(self) -> None:
        def net(x: tf.Tensor) -> Any:
            y = loops.repeat(3, lambda v: v * x, [1.0])
            return y, tf1.gradients(y, x)[0]

        assert _run(net, [2.0])[0] == [8.0, 12.0]

    def test_plain_tensorflow_gives_the_same(self) -> None:
        def body(v: tf.Tensor) -> tf.Tensor:
            return tf.tanh(tf.matmul(v, v)) + 0.1

        start = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
        (ours,), _ = _run(lambda x: loops.repeat(20, body, [x]), [tf.constant(start)])
        value = tf1.placeholder(tf.float32, [3, 3])
        following = body(value)
        with tf1.Session() as session:
            expected = start
            for _ in range(20):
                expected = session.run(following, {value: expected})
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.usefixtures("graph")
class TestResults:
    """The structure of a loop's results."""

    @staticmethod
    def _of_a_loop(body: Callable[..., Any], inputs: Any) -> Any:
        found: list[Any] = []

        def net() -> Any:
            found.append(loops.repeat(2, body, inputs))
            return found[0]

        _compile(net)
        return found[0]

    @pytest.mark.parametrize("inputs", [None, [], ()])
    @pytest.mark.parametrize("returned", [[], ()])
    def test_a_loop_without_results_is_an_operation(self, inputs: Any, returned: Any) -> None:
        assert isinstance(self._of_a_loop(lambda: returned, inputs), tf.Operation)

    def test_a_loop_of_operations_is_an_operation(self) -> None:
        assert isinstance(self._of_a_loop(tf.no_op, None), tf.Operation)

    def test_a_loop_of_one_tensor_returns_it(self) -> None:
        assert isinstance(self._of_a_loop(lambda v: v, [1.0]), tf.Tensor)

    def test_a_loop_of_several_tensors_returns_a_list(self) -> None:
        result = self._of_a_loop(lambda a, b: (a, b), [1.0, 2.0])
        assert isinstance(result, list)
        assert len(result) == 2


@pytest.mark.usefixtures("graph")
class TestOperations:
    """Operations that a body returns run in every iteration; others do not."""

    def test_operations_after_tensors_run_in_every_iteration(self) -> None:
        def body(v: tf.Tensor) -> Any:
            return v + 1.0, _counter().assign_add(v).op

        results, variables = _run(lambda: loops.repeat(4, body, [1.0]))
        assert results == [5.0]
        assert variables == [10.0]

    @pytest.mark.parametrize("wrap", [lambda op: op, lambda op: [op], lambda op: (op, tf.no_op())])
    def test_operations_alone_run_in_every_iteration(self, wrap: Callable[..., Any]) -> None:
        _, variables = _run(lambda: loops.repeat(4, lambda: wrap(_counter().assign_add(1.0).op)))
        assert variables == [4.0]

    def test_operations_of_nested_loop_run_in_every_iteration(self) -> None:
        def body(v: tf.Tensor) -> Any:
            return v, loops.repeat(3, lambda: _counter().assign_add(v).op)

        assert _run(lambda: loops.repeat(2, body, [2.0]))[1] == [12.0]

    def test_operations_that_are_not_returned_do_not_run(self) -> None:
        def body(v: tf.Tensor) -> tf.Tensor:
            _counter().assign_add(1.0)
            return v + 1.0

        results, variables = _run(lambda: loops.repeat(4, body, [1.0]))
        assert results == [5.0]
        assert variables == [0.0]

    def test_iterations_are_sequential(self) -> None:
        def body(v: tf.Tensor) -> Any:
            variable = _counter()
            return variable.assign(variable * 2.0 + 1.0) * 1.0

        results, variables = _run(lambda: loops.repeat(20, body, [0.0]))
        assert results == variables == [2.0**20 - 1]


@pytest.mark.usefixtures("graph")
class TestWhile:
    """`while_loop`."""

    @pytest.mark.parametrize("version", [True, False])
    def test_ends_with_the_condition(self, version: bool) -> None:
        def net() -> Any:
            return loops.while_loop(
                lambda v: v < 100.0, lambda v: v * 2.0, [3.0], use_while_v1=version
            )

        assert _run(net)[0] == [192.0]

    def test_condition_that_does_not_hold(self) -> None:
        assert _run(lambda: loops.while_loop(lambda v: v < 0.0, lambda v: v * 2, [3.0]))[0] == [3.0]

    @pytest.mark.parametrize(("most", "expected"), [(0, 1.0), (3, 8.0), (50, 128.0)])
    def test_maximum_iterations_end_the_loop(self, most: int, expected: float) -> None:
        def net() -> Any:
            return loops.while_loop(
                lambda v: v < 100.0, lambda v: v * 2.0, [1.0], maximum_iterations=most
            )

        assert _run(net)[0] == [expected]

    def test_several_values_and_operations_are_carried(self) -> None:
        def body(i: tf.Tensor, v: tf.Tensor) -> Any:
            return i + 1, v * 2.0, _counter().assign_add(1.0).op

        results, variables = _run(
            lambda: loops.while_loop(lambda i, v: i < 4, body, [tf.constant(0), 1.0])
        )
        assert results == [4, 16.0]
        assert variables == [4.0]

    def test_the_condition_may_read_a_variable(self) -> None:
        def net() -> Any:
            return loops.while_loop(lambda: _counter() < 5.0, lambda: _counter().assign_add(2.0).op)

        assert _run(net)[1] == [6.0]

    def test_while_loop_runs_inside_repeat(self) -> None:
        def body(v: tf.Tensor) -> tf.Tensor:
            return loops.while_loop(lambda a: a < v * 3.0, lambda a: a + 1.0, [v])

        assert _run(lambda: loops.repeat(2, body, [1.0]))[0] == [9.0]

    def test_condition_does_not_get_the_infeed(self) -> None:
        queue = _queue()
        result = _compile(
            lambda: loops.while_loop(
                lambda total: total < 5.0, lambda total, x: total + x, [0.0], queue
            )
        )
        with tf1.Session() as session:
            session.run(queue.initializer)
            assert session.run(result) == [6.0]


@pytest.mark.usefixtures("graph")
class TestInfeeds:
    """How elements reach the body."""

    def _sum(self, dataset: tf.data.Dataset, body: Callable[..., Any], n: int = 3) -> Any:
        queue = IPUInfeedQueue(dataset)
        result = _compile(lambda: loops.repeat(n, body, [0.0], queue))
        with tf1.Session() as session:
            session.run(queue.initializer)
            return session.run(result)[0]

    def test_tuple_members_are_positional(self) -> None:
        dataset = tf.data.Dataset.from_tensor_slices(([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
        assert self._sum(dataset, lambda total, x, y: total + x * y) == 32.0

    def test_a_dict_element_becomes_keyword_arguments(self) -> None:
        dataset = tf.data.Dataset.from_tensor_slices({"x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]})
        assert self._sum(dataset, lambda total, y, x: total + x / y) == pytest.approx(1.15)

    def test_dict_in_a_tuple_is_one_argument(self) -> None:
        dataset = tf.data.Dataset.from_tensor_slices(({"x": [1.0, 2.0]}, [4.0, 5.0]))
        assert self._sum(dataset, lambda total, d, y: total + d["x"] * y, 2) == 14.0

    def test_a_variadic_body_gets_all_elements(self) -> None:
        dataset = tf.data.Dataset.from_tensor_slices(([1.0, 2.0], [4.0, 5.0]))
        assert self._sum(dataset, lambda total, *xs: total + xs[0] * xs[1], 2) == 14.0

    def test_an_inner_loop_reads_its_infeed(self) -> None:
        queue = _queue()

        def outer(total: tf.Tensor) -> tf.Tensor:
            return loops.repeat(3, lambda v, x: v + x, [total], queue)

        result = _compile(lambda: loops.repeat(2, outer, [0.0]))
        with tf1.Session() as session:
            session.run(queue.initializer)
            assert session.run(result) == [15.0]

    def test_an_outfeed_is_filled_in_every_iteration(self) -> None:
        outfeed = IPUOutfeedQueue()

        def body(v: tf.Tensor) -> Any:
            return v * 2.0, outfeed.enqueue(v)

        result = _compile(lambda: loops.repeat(4, body, [1.0]))
        dequeue = outfeed.dequeue()
        with tf1.Session() as session:
            session.run(result)
            np.testing.assert_array_equal(session.run(dequeue), [1, 2, 4, 8])


@pytest.mark.usefixtures("graph")
class TestErrors:
    """Every row of the table of errors."""

    _CALL = "Supplied loop {} function cannot be called with the specified inputs"

    @pytest.mark.parametrize(
        ("body", "inputs"),
        [(lambda: [], [1.0]), (lambda a, b: a, [1.0]), (lambda a: a, None), (lambda a: a, [1, 2])],
    )
    @pytest.mark.parametrize("loop", ["repeat", "while"])
    def test_body_cannot_take_the_inputs(
        self, body: Callable[..., Any], inputs: Any, loop: str
    ) -> None:
        def net() -> Any:
            if loop == "repeat":
                return loops.repeat(2, body, inputs)
            return loops.while_loop(lambda *_: True, body, inputs)

        with pytest.raises(TypeError, match=self._CALL.format("body")):
            _compile(net)

    def test_body_cannot_take_the_infeed(self) -> None:
        queue = _queue()
        pattern = f"{self._CALL.format('body')}.* and 1 additional inputs from infeed"
        with pytest.raises(TypeError, match=pattern):
            _compile(lambda: loops.repeat(2, lambda v: v, [1.0], queue))

    def test_body_that_lacks_key_of_infeed_is_refused(self) -> None:
        queue = IPUInfeedQueue(tf.data.Dataset.from_tensors({"x": 1.0, "y": 2.0}))
        pattern = f"{self._CALL.format('body')}.* and 2 additional inputs from infeed"
        with pytest.raises(TypeError, match=pattern):
            _compile(lambda: loops.repeat(2, lambda v, x: v, [1.0], queue))

    @pytest.mark.parametrize("condition", [lambda: True, lambda a, b: True])
    def test_condition_cannot_take_the_inputs(self, condition: Callable[..., Any]) -> None:
        with pytest.raises(TypeError, match=self._CALL.format("condition")):
            _compile(lambda: loops.while_loop(condition, lambda v: v, [1.0]))

    @pytest.mark.parametrize(
        "body",
        [lambda v: (tf.no_op(), v), lambda v: (v, tf.no_op(), v), lambda v: object()],
        ids=["before", "between", "object"],
    )
    def test_a_body_that_returns_other_things_is_refused(self, body: Callable[..., Any]) -> None:
        pattern = "IPU loop body must return zero or more Tensor values"
        with pytest.raises(ValueError, match=pattern):
            _compile(lambda: loops.repeat(2, body, [1.0]))

    @pytest.mark.parametrize("inputs", [None, [1.0]])
    def test_a_body_that_returns_none_is_refused(self, inputs: Any) -> None:
        with pytest.raises(ValueError, match="IPU loop body"):
            _compile(lambda: loops.repeat(2, lambda *_: None, inputs))

    @pytest.mark.parametrize(
        "body",
        [lambda v: (v, v), lambda v: [], lambda v: tf.cast(v, tf.int32), lambda v: tf.no_op()],
        ids=["more", "fewer", "dtype", "operation"],
    )
    def test_a_body_that_returns_other_types_is_refused(self, body: Callable[..., Any]) -> None:
        pattern = "Mismatch between input types and output types for loop"
        with pytest.raises(TypeError, match=pattern):
            _compile(lambda: loops.repeat(2, body, [1.0]))

    def test_a_body_that_returns_another_shape_is_refused(self) -> None:
        with pytest.raises(ValueError, match="shape"):
            _compile(lambda: loops.repeat(2, lambda v: tf.stack([v, v]), [1.0]))


class TestInFunctions:
    """The same loops in TensorFlow 2."""

    def test_repeat_runs_in_a_function(self) -> None:
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            total = tf.Variable(0.0)

            @tf.function(jit_compile=True)
            def step(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
                return loops.repeat(n, lambda v: (v * 2.0, total.assign_add(v).op), [x])

            assert strategy.run(step, [tf.constant(3), tf.constant(1.0)]).numpy() == 8.0
            assert strategy.run(step, [tf.constant(0), tf.constant(5.0)]).numpy() == 5.0
        assert total.numpy() == 7.0

    def test_while_loop_runs_in_a_function(self) -> None:
        strategy = ipu_strategy.IPUStrategy()

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> Any:
            return loops.while_loop(lambda v, _: v < 10.0, lambda v, w: [v + x, v], [x, 0.0])

        with strategy.scope():
            results = strategy.run(step, [tf.constant(3.0)])
        assert [result.numpy() for result in results] == [12.0, 9.0]
