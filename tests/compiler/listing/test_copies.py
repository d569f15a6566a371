"""Copies between IPUs, counted by hand for small programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir.records import CopyRecord
from tensorflow_ipu.compiler.listing import copies

tf1 = tf.compat.v1
X = np.arange(1, 5, dtype=np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    with tf.Graph().as_default() as graph:
        yield graph


def _run(net: Callable[..., Any], inputs: Any = (X,)) -> tuple[list[Any], Executable]:
    with scopes.ipu_scope("/device:IPU:0"):
        fetches = ipu_compiler.compile(net, list(inputs))
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        results = session.run(fetches)
    (executable,) = cache.executables()
    return results, executable


def _brief(found: tuple[CopyRecord, ...]) -> list[tuple[int, int, int | None, int | None]]:
    return [(copy.source, copy.destination, copy.bytes, copy.runs) for copy in found]


def _ipus(executable: Executable, op_type: str) -> list[tuple[int, ...]]:
    return [record.ipus for record in executable.ops if record.type == op_type]


def _on(ipu: int, function: Callable[..., Any], *args: Any) -> Any:
    with scopes.ipu_shard(ipu):
        return function(*args)


def test_no_shards_no_copies() -> None:
    _, executable = _run(lambda x: tf.exp(x) * 2)
    assert executable.copies == ()
    assert "copies between" not in str(executable)


def test_one_copy_for_each_tensor_and_destination() -> None:
    def net(x: tf.Tensor) -> Any:
        y = _on(0, tf.exp, x)
        return [_on(1, tf.sin, y), _on(1, tf.cos, y), _on(2, tf.tanh, y), _on(0, tf.tan, y)]

    results, executable = _run(net)
    np.testing.assert_allclose(results[2], np.tanh(np.exp(X)), rtol=1e-6)
    (first, second) = executable.copies
    assert first == CopyRecord("Exp:0", executable.entry, 0, 1, 16, 1, False, "exact")
    assert _brief((second,)) == [(0, 2, 16, 1)]


def test_copies_have_bytes_of_type_both_ways() -> None:
    def net(x: tf.Tensor) -> tf.Tensor:
        half = _on(1, lambda: tf.cast(tf.exp(x), tf.float16))
        whole = _on(0, lambda: tf.cast(half, tf.int32))
        return _on(1, lambda: whole + 1)

    _, executable = _run(net)
    assert _brief(executable.copies) == [(1, 0, 8, 1), (0, 1, 16, 1)]
    assert copies.copy_total(executable.copies).bytes == 24


def test_an_argument_is_where_it_is_first_used() -> None:
    def net(x: tf.Tensor) -> Any:
        return [_on(1, tf.exp, x), _on(0, tf.sin, x)]

    _, executable = _run(net)
    order = [record.type for record in executable.ops]
    expected = [(1, 0, 16, 1)] if order.index("Exp") < order.index("Sin") else [(0, 1, 16, 1)]
    assert _brief(executable.copies) == expected


def test_constants_and_shapes_are_everywhere() -> None:
    def net(x: tf.Tensor) -> Any:
        y = _on(0, tf.exp, x)
        constant = _on(0, lambda: tf.constant([1.0, 2.0, 3.0, 4.0]) * 2.0)
        size = _on(0, lambda: tf.cast(tf.raw_ops.Shape(input=y)[0], tf.float32))
        return _on(1, lambda: tf.sin(y) * constant * size)

    results, executable = _run(net)
    np.testing.assert_allclose(results[0], np.sin(np.exp(X)) * 8 * np.arange(1, 5), rtol=1e-5)
    assert _ipus(executable, "Shape") == [(0,)]
    assert [copy.tensor for copy in executable.copies] == ["Exp:0"]


def test_a_loop_copies_in_every_iteration() -> None:
    def body(x: tf.Tensor) -> tf.Tensor:
        y = _on(0, tf.tanh, x)
        return _on(1, tf.sin, y)

    _, executable = _run(lambda x: loops.repeat(5, body, [x]))
    # What the loop carries is on IPU 1: back to 0 and forth again in every iteration.
    assert _brief(executable.copies) == [(1, 0, 16, 5), (0, 1, 16, 5)]
    assert "copies between IPUs: 2, 160 B in one launch" in str(executable)


def test_nested_loops_multiply() -> None:
    def inner(x: tf.Tensor) -> tf.Tensor:
        return _on(0, tf.sin, _on(1, tf.tanh, x))

    def outer(x: tf.Tensor) -> tf.Tensor:
        return loops.repeat(3, inner, [x])

    _, executable = _run(lambda x: loops.repeat(2, outer, [x]))
    assert _brief(executable.copies) == [(0, 1, 16, 6), (1, 0, 16, 6)]


def test_a_value_enters_a_loop_once() -> None:
    def net(x: tf.Tensor) -> tf.Tensor:
        y = _on(0, tf.exp, x)
        return loops.repeat(7, lambda z: _on(1, tf.sin, z), [y])

    _, executable = _run(net)
    assert _brief(executable.copies) == [(0, 1, 16, 1)]


def test_loop_invariants_are_copied_for_users() -> None:
    def net(x: tf.Tensor) -> tf.Tensor:
        y = _on(0, tf.exp, x)
        return tf.while_loop(
            lambda i, z: i < 3, lambda i, z: (i + 1, _on(1, lambda: z * y)), (0, tf.ones([4]))
        )[1]

    _, executable = _run(net)
    assert _brief(executable.copies) == [(0, 1, 16, 3)]


def test_a_loop_of_unknown_length_counts_once() -> None:
    def net(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return loops.repeat(n, lambda z: _on(0, tf.sin, _on(1, tf.tanh, z)), [x])

    results, executable = _run(net, (X, np.int32(2)))
    np.testing.assert_allclose(results[0], np.sin(np.tanh(np.sin(np.tanh(X)))), rtol=1e-5)
    sizes = [copy for copy in executable.copies if copy.bytes == 16]
    assert _brief(tuple(sizes)) == [(0, 1, 16, None), (1, 0, 16, None)]
    assert {copy.label for copy in sizes} == {"assumed"}
    assert "copies in loops of unknown trip count" in str(executable)


def test_copies_in_branches_are_listed() -> None:
    def net(x: tf.Tensor) -> tf.Tensor:
        y = _on(0, tf.exp, x)
        predicate = _on(0, lambda: tf.reduce_sum(x) > 0)
        z = tf.cond(predicate, lambda: _on(1, tf.sin, y), lambda: _on(2, tf.cos, y))
        return _on(1, tf.tanh, z)

    results, executable = _run(net)
    np.testing.assert_allclose(results[0], np.tanh(np.sin(np.exp(X))), rtol=1e-5)
    # Into the branches, and from the second one to where the first has its result.
    assert _brief(executable.copies) == [(0, 1, 16, 1), (0, 2, 16, 1), (2, 1, 16, 1)]
    assert all(copy.conditional and copy.label == "assumed" for copy in executable.copies)
    assert "counted as taken" in copies.format_copies(executable.copies)


def test_calls_pass_values_on() -> None:
    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x) * 2.0

    def net(x: tf.Tensor) -> tf.Tensor:
        y = _on(0, tf.exp, x)
        return _on(0, tf.tanh, _on(1, inner, y))

    _, executable = _run(net)
    assert _brief(executable.copies) == [(0, 1, 16, 1), (1, 0, 16, 1)]
    assert _ipus(executable, "Sin") == [(1,)]


def test_a_variable_lives_where_it_is_first_used() -> None:
    def net(x: tf.Tensor) -> Any:
        w = tf1.get_variable("w", initializer=np.ones([4, 4], np.float32))
        y = _on(1, lambda: tf.linalg.matvec(w, x))
        with tf.control_dependencies([y]):
            z = _on(0, lambda: tf.reduce_sum(w.read_value()) + tf.reduce_sum(w.read_value()))
        with tf.control_dependencies([z]):
            update = _on(0, lambda: w.assign_add(tf.ones([4, 4]), read_value=False))
        return y, z, update

    results, executable = _run(net)
    assert results[1] == 32
    # Read twice elsewhere, copied once. The update reads nothing anew, and is sent home.
    assert _brief(executable.copies) == [(1, 0, 64, 1), (0, 1, 64, 1)]
    assert {copy.tensor for copy in executable.copies} == {
        argument.name for argument in executable.arguments if argument.is_variable
    }


def test_a_variable_that_was_written_is_copied_again() -> None:
    def net(x: tf.Tensor) -> Any:
        w = tf1.get_variable("w", initializer=X)
        first = _on(1, lambda: w.read_value() * x)
        with tf.control_dependencies([first]):
            second = _on(0, lambda: w.read_value() * 2.0)
        with tf.control_dependencies([second]):
            update = _on(1, lambda: w.assign(tf.zeros([4]), read_value=False))
        with tf.control_dependencies([update]):
            third = _on(0, lambda: w.read_value() * 3.0)
        return first, second, third, update

    results, executable = _run(net)
    np.testing.assert_array_equal(results[2], 0 * X)
    variable = [copy for copy in executable.copies if copy.tensor != "arg_0"]
    assert _brief(tuple(variable)) == [(1, 0, 16, 1), (1, 0, 16, 1)]


def test_results_do_not_depend_on_the_placement() -> None:
    def net(x: tf.Tensor, sharded: bool) -> tf.Tensor:
        def body(i: tf.Tensor, y: tf.Tensor) -> Any:
            y = _on(1, tf.sin, y) if sharded else tf.sin(y)
            return i + 1, tf.cond(tf.reduce_sum(y) > 1, lambda: y * 2, lambda: y + 1)

        return tf.while_loop(lambda i, y: i < 4, body, (0, x))[1]

    plain = net(tf.constant(X), False)
    results, _ = _run(lambda x: net(x, True))
    with tf1.Session() as session:
        np.testing.assert_allclose(results[0], session.run(plain), rtol=1e-6)
