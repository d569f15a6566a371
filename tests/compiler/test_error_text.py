"""Errors of programs name the op, its layer and the user's line, whichever way they come up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cluster as cluster_lib
from tensorflow_ipu.compiler import error_text, trace
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tests.support.checkout.source_lines import place_of
from tests.support.programs import replicas

tf1 = tf.compat.v1
INVALID = tf.errors.InvalidArgumentError
_SCALARS = [tf.TensorSpec([], tf.int32)]
_INDICES = [tf.TensorSpec([None], tf.int32)]
_MATRICES = [tf.TensorSpec([None, None])] * 2


def _gather(i: tf.Tensor) -> tf.Tensor:
    return tf.gather([1.0, 2.0, 3.0], i)


def _matmul(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    with tf.name_scope("mine"):
        return tf.matmul(x, y)


def _reshape(shape: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.sin(tf.cast(shape, tf.float32)), shape)


def _in_a_loop(i: tf.Tensor) -> tf.Tensor:
    total = 0.0
    for step in tf.range(4):
        if step > 1:
            total += tf.reduce_sum(tf.gather([1.0, 2.0], i))
    return total


@tf.function
def _called(i: tf.Tensor) -> tf.Tensor:
    return tf.gather([1.0, 2.0], i)


def _in_a_call(i: tf.Tensor) -> tf.Tensor:
    return _called(i)


def _gradient(i: tf.Tensor) -> tf.Tensor:
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tile(x, i)  # whose gradient reshapes, and the shapes do not fit
    return tape.gradient(y, x, output_gradients=tf.zeros([7]))


# Case -> a program, the types of its arguments, arguments that fail, the line and words to find.
_RUN_TIME: dict[str, tuple[Any, Any, list[Any], tuple[Any, str], list[str]]] = {
    "gather": (_gather, _INDICES, [[5]], (_gather, "tf.gather"), ["(GatherV2)", "5 is not in"]),
    "matmul": (
        _matmul,
        _MATRICES,
        [np.zeros([3, 2], np.float32)] * 2,
        (_matmul, "tf.matmul"),
        ["Matrix size-incompatible", "in the layer mine", "return tf.matmul(x, y)"],
    ),
    "reshape": (_reshape, _INDICES, [[2, 3]], (_reshape, "tf.reshape"), ["(Reshape)"]),
    "loop": (_in_a_loop, _INDICES, [[9]], (_in_a_loop, "tf.gather"), ["9 is not in"]),
    "call": (_in_a_call, _INDICES, [[9]], (_called.python_function, "tf.gather"), ["9 is not in"]),
    "gradient": (
        _gradient,
        _INDICES,
        [[2]],
        (_gradient, "tf.tile"),
        ["gradient_tape/", "for Tile"],
    ),
}


def _run_eagerly(function: Callable[..., Any], specs: Any, values: list[Any]) -> None:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        traced = tf.function(function, input_signature=specs, jit_compile=True)
        strategy.run(traced, [tf.constant(value) for value in values])


def _run_in_a_function(function: Callable[..., Any], specs: Any, values: list[Any]) -> None:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()

    @tf.function(input_signature=specs)
    def outer(*arguments: tf.Tensor) -> Any:
        return strategy.run(function, arguments)

    outer(*[tf.constant(value) for value in values])


def _run_in_a_session(function: Callable[..., Any], specs: Any, values: list[Any]) -> None:
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = [tf1.placeholder(spec.dtype, spec.shape) for spec in specs]
        with scopes.ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(function, inputs)
        session.run(results, dict(zip(inputs, values)))


@pytest.mark.parametrize("run", [_run_eagerly, _run_in_a_function, _run_in_a_session])
@pytest.mark.parametrize("case", _RUN_TIME)
def test_errors_of_kernels_name_op_and_line(case: str, run: Callable[..., None]) -> None:
    function, specs, values, line, words = _RUN_TIME[case]
    if case == "loop" and run is _run_in_a_session:
        function = tf.function(function)  # for AutoGraph
    with pytest.raises(INVALID) as caught:
        run(function, specs, values)
    message = str(caught.value)
    assert caught.value.error_code == tf.errors.INVALID_ARGUMENT
    assert place_of(*line) in message
    for word in words:
        assert word in message
    assert "function_node" not in message
    if run is _run_eagerly:
        assert caught.value.op is None
        assert "{{" not in message and "[Op:" not in message
        assert message.index("\n") < message.index("In the IPU program cluster_")
    if run is _run_in_a_session:
        assert caught.value.op.type == "IpuLaunch"  # the op of the graph that failed


def test_ends_of_datasets_stay_what_they_are() -> None:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        iterator = iter(tf.data.Dataset.from_tensors(1.0))

        @tf.function(jit_compile=True)
        def program() -> tf.Tensor:
            return next(iterator) + 1.0

        assert strategy.run(program) == 2.0
        with pytest.raises(tf.errors.OutOfRangeError, match=r"^[^{]*$") as caught:
            strategy.run(program)
    assert place_of(test_ends_of_datasets_stay_what_they_are, "next(iterator)") in str(caught.value)


def test_errors_of_datasets_name_the_line_that_reads() -> None:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        iterator = iter(tf.data.Dataset.from_tensors([7]).map(_gather))

        @tf.function(jit_compile=True)
        def program() -> tf.Tensor:
            read = next(iterator)
            return tf.gather(read, 0)

        with pytest.raises(INVALID, match="7 is not in.*\n.*dataset op GatherV2") as caught:
            strategy.run(program)
    # The op of the dataset is not taken for that of the same name in the program.
    assert place_of(program.python_function, "next(iterator)") in str(caught.value)
    assert place_of(program.python_function, "tf.gather") not in str(caught.value)


def _unsupported(x: tf.Tensor) -> tf.Tensor:
    text = tf.strings.as_string(x)
    return tf.strings.length(text)


def _wrong_group(x: tf.Tensor) -> tf.Tensor:
    return cross_replica_ops.cross_replica_sum(x, replica_group_size=3)


def _not_uniform(x: tf.Tensor) -> tf.Tensor:
    def added() -> tf.Tensor:
        return cross_replica_ops.cross_replica_sum(x)

    different = replication_ops.replication_index() > 0
    return tf.cond(different, added, lambda: x)


def _diverging(x: tf.Tensor) -> tf.Tensor:
    def added() -> tf.Tensor:
        return cross_replica_ops.cross_replica_sum(x)

    index = replication_ops.replication_index()
    promised = cross_replica_ops.assume_equal_across_replicas(index)
    return tf.cond(promised > 0, added, lambda: x)


# Case -> a program, replicas, the lines to find, and the error.
_COMPILE_TIME: dict[str, tuple[Any, int, list[str], type[Exception]]] = {
    "unsupported op": (_unsupported, 1, ["tf.strings.as_string", "tf.strings.length"], INVALID),
    "size of a group": (_wrong_group, 2, ["cross_replica_sum"], INVALID),
    "not uniform": (_not_uniform, 2, ["tf.cond", "cross_replica_sum"], INVALID),
    "diverging": (_diverging, 2, ["cross_replica_sum"], tf.errors.FailedPreconditionError),
}


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("case", _COMPILE_TIME)
def test_refusals_and_divergence_name_the_line(case: str, in_session: bool) -> None:
    function, count, lines, error = _COMPILE_TIME[case]
    with pytest.raises(error) as caught:
        replicas.run(count, lambda: function(tf.constant([1.0])), in_session)
    for text in lines:
        assert place_of(function, text) in str(caught.value)


@pytest.mark.parametrize("in_session", [False, True])
def test_floating_point_exceptions_name_op_and_line(in_session: bool) -> None:
    def program() -> tf.Tensor:
        def body(x: tf.Tensor) -> tf.Tensor:
            return tf.math.log(x - 1.0)

        return loops.repeat(3, body, [tf.constant([3.0])])

    config = IPUConfig()
    config.auto_select_ipus = 1
    config.floating_point_behaviour.inv = True
    config.configure_ipu_system()
    with pytest.raises(tf.errors.InternalError, match="invalid operation in .*Log") as caught:
        if in_session:
            with tf.Graph().as_default(), tf1.Session() as session:
                with scopes.ipu_scope("/device:IPU:0"):
                    results = ipu_compiler.compile(program)
                session.run(results)
        else:
            strategy = ipu_strategy.IPUStrategy()
            with strategy.scope():
                strategy.run(tf.function(program, jit_compile=True))
    assert place_of(program, "tf.math.log") in str(caught.value)


def test_placement_error_of_session_names_op_and_line() -> None:
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            wide = tf.Variable(1.0, dtype=tf.float64, use_resource=True)
        with pytest.raises(tf.errors.OpError, match="Cannot assign a device") as caught:
            session.run(wide.initializer)
    line = place_of(test_placement_error_of_session_names_op_and_line, "dtype=tf.float64")
    file, number = line.strip().rsplit(":", 1)
    assert f'File "{file}", line {number}' in str(caught.value)


def _traced() -> cluster_lib.Cluster:
    def body(x: tf.Tensor) -> Any:
        with tf.name_scope("block"):
            return [tf.matmul(x, x, name="product")], []

    with tf.Graph().as_default():
        return trace.trace(body, [tf.zeros([2, 2])], "made")


def test_tags_become_names_and_lines() -> None:
    cluster = _traced()
    message = (
        f"{{{{function_node {cluster.entry}}}}} It fails in {{{{node block/product}}}} and in "
        "{{node nowhere}}.\n\t [[{{node block/product/ipu_round}}]]\n\t [[cluster_0__x]]"
    )
    first, program, *rest = error_text.explained(message, cluster).splitlines()
    assert first == "It fails in block/product and in nowhere."
    assert program == f"In the IPU program {cluster.id}:"
    line = place_of(_traced, "tf.matmul")
    assert rest[0].startswith(f"  block/product (MatMul), in the layer block, at {line}(body):")
    assert rest[1] == '    return [tf.matmul(x, x, name="product")], []'
    # What a pass has made for an op is described as that op.
    assert rest[2].startswith("  block/product/ipu_round (MatMul)")


def test_messages_without_tags_stay_as_they_are() -> None:
    message = "Expected\n\t [[1 2]] and got {1}."
    assert error_text.explained(message, _traced()) == message
