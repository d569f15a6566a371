"""Source locations of ops, in this very file."""

from __future__ import annotations

import inspect
from pathlib import Path

import keras
import tensorflow as tf

from tensorflow_ipu.compiler.source_map import SourceMap, source_of


def _line_of(function: object, text: str) -> int:
    """Line number in this file of the first line of a function that contains `text`."""
    lines, start = inspect.getsourcelines(function)
    return start + next(index for index, line in enumerate(lines) if text in line)


def _program(x: tf.Tensor) -> tf.Tensor:
    def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.tanh(y)

    x = tf.while_loop(lambda i, _: i < 3, body, (0, x))[1]
    if tf.reduce_sum(x) > 0:
        z = tf.sin(x)
    else:
        z = tf.cos(x)
    z = _called(z)
    for _ in tf.range(4):
        z = tf.atan(z)
    return z


@tf.function
def _called(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(x)


def _traced() -> tf.types.experimental.ConcreteFunction:
    return tf.function(_program).get_concrete_function(tf.TensorSpec([4, 4]))


def _found(op_type: str) -> tuple[str, int]:
    """File and line of the op of a type, searched through the compiled functions."""
    concrete = _traced()
    definition = concrete.function_def
    functions = [*concrete.graph.as_graph_def().library.function, definition]
    sources = SourceMap(concrete.graph, definition.signature.name)
    found = {
        sources.lookup(function.signature.name, node.name)
        for function in functions
        for node in function.node_def
        if node.op == op_type
    }
    assert len(found) == 1
    location = found.pop()
    assert location is not None
    return Path(location.file).name, location.line


def test_ops_in_loops_branches_calls_and_autograph_loops() -> None:
    name = Path(__file__).name
    assert _found("Tanh") == (name, _line_of(_program, "tf.tanh"))
    assert _found("Sin") == (name, _line_of(_program, "tf.sin"))
    assert _found("Cos") == (name, _line_of(_program, "tf.cos"))
    assert _found("Atan") == (name, _line_of(_program, "tf.atan"))
    assert _found("Exp") == (name, _line_of(_called.python_function, "tf.exp"))


def test_gradients_are_where_they_were_asked_for() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.tanh(x)
        return tape.gradient(y, x)

    graph = step.get_concrete_function(tf.TensorSpec([2])).graph
    gradient = next(op for op in graph.get_operations() if op.type == "TanhGrad")
    location = source_of(gradient)
    assert location is not None
    assert location.line == _line_of(step.python_function, "tape.gradient")
    assert location.function == "step"
    assert str(location) == f"{Path(__file__).name}:{location.line} (step)"


def test_the_inside_of_a_keras_layer_is_the_line_that_calls_the_layer() -> None:
    layer = keras.layers.Dense(3)
    layer.build([None, 4])

    @tf.function
    def call(x: tf.Tensor) -> tf.Tensor:
        return layer(x)

    graph = call.get_concrete_function(tf.TensorSpec([2, 4])).graph
    product = next(op for op in graph.get_operations() if op.type == "MatMul")
    location = source_of(product)
    assert location is not None
    assert location.line == _line_of(call.python_function, "layer(x)")


def test_a_renamed_function_is_searched_by_op() -> None:
    sources = SourceMap(_traced().graph)
    assert sources.lookup("renamed", "no_such_op") is None
    with_loop = [op.name for op in _traced().graph.get_operations() if op.type == "Sum"]
    location = sources.lookup("renamed", with_loop[0])
    assert location is not None and location.line == _line_of(_program, "tf.reduce_sum")


def test_an_op_of_a_pass_has_no_source() -> None:
    concrete = _traced()
    name = concrete.function_def.signature.name
    assert SourceMap(concrete.graph, name).lookup(name, "added_by_a_pass") is None


def test_a_graph_of_tensorflow_1() -> None:
    with tf.Graph().as_default() as graph:
        op = tf.constant(1.0, name="made_here").op
    location = SourceMap(graph).lookup("", "made_here")
    assert location == source_of(op)
    assert location is not None
    assert location.function == "test_a_graph_of_tensorflow_1"
