"""Which line of a stack is the user's."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import tensorflow_ipu
from tensorflow_ipu.compiler import source_map, trace
from tensorflow_ipu.compiler.source_map import SourceLocation, SourceMap, source_of
from tests.support.checkout.source_lines import line_of

_SITE = sysconfig.get_path("purelib")
_FILES = {
    "user": "/home/me/train.py",
    "layers": "/home/me/layers.py",
    "installed": os.path.join(_SITE, "transformers", "modeling_bert.py"),
    "tensorflow": os.path.join(os.path.dirname(tf.__file__), "python", "ops", "math_ops.py"),
    "keras": os.path.join(os.path.dirname(keras.__file__), "src", "engine", "training.py"),
    "own": os.path.join(os.path.dirname(tensorflow_ipu.__file__), "ipu_compiler.py"),
    "stdlib": os.path.join(sysconfig.get_path("stdlib"), "threading.py"),
    "autograph": "/tmp/__autograph_generated_filexyz.py",
}


def _stack(*names: str) -> list[traceback.FrameSummary]:
    """Frames of those files, the outermost first; the n-th is in line n."""
    return [
        traceback.FrameSummary(_FILES[name], number, f"in_{name}", lookup_line=False)
        for number, name in enumerate(names, 1)
    ]


@pytest.mark.parametrize(
    "names, number",
    [
        (("user", "tensorflow"), 1),
        (("user", "layers", "tensorflow"), 2),
        # The line in the program, not the one that runs it; a line of a library only without one.
        (("user", "own", "keras", "layers", "tensorflow"), 4),
        (("user", "own", "keras", "installed", "tensorflow"), 4),
        (("user", "own", "keras", "layers", "installed", "tensorflow"), 4),
        (("user", "own", "keras", "tensorflow"), 1),
        (("installed", "own", "tensorflow"), 1),
        (("user", "installed", "own", "tensorflow"), 1),
        # What a pass of the program calls is the user's again.
        (("user", "own", "tensorflow", "layers", "own", "tensorflow"), 4),
        (("stdlib", "user", "stdlib", "autograph", "tensorflow"), 2),
    ],
)
def test_the_innermost_line_of_the_user_is_found(names: tuple[str, ...], number: int) -> None:
    found = source_map.user_line(_stack(*names))
    assert found is not None and found.line == number


def test_no_line_of_a_user() -> None:
    assert source_map.user_line(_stack("stdlib", "own", "keras", "tensorflow")) is None


def test_generated_functions_of_ops_are_no_users() -> None:
    def stack(function: str) -> list[traceback.FrameSummary]:
        generated = traceback.FrameSummary("<string>", 9, function, lookup_line=False)
        return [*_stack("user"), generated]

    assert source_map.user_line(stack("ipu_launch")).line == 1
    assert source_map.user_line(stack("main")).line == 9  # a program given as `python -c`


def test_the_line_that_is_running() -> None:
    found = source_map.current()
    assert found is not None
    assert (Path(found.file).name, found.function) == (Path(__file__).name, found.function)
    assert found.function == "test_the_line_that_is_running"
    assert str(found) == f"{Path(__file__).name}:{found.line} ({found.function})"
    assert found.path == f"{__file__}:{found.line} ({found.function})"


def test_location_is_shown_by_file_name_and_line() -> None:
    location = SourceLocation("/home/me/train.py", 12, "step")
    assert (str(location), location.path) == ("train.py:12 (step)", "/home/me/train.py:12 (step)")


def _keras_stack(*places: tuple[str, str]) -> list[traceback.FrameSummary]:
    folder = os.path.join(os.path.dirname(keras.__file__), "src")
    return [
        traceback.FrameSummary(os.path.join(folder, file), 1, name, lookup_line=False)
        for file, name in places
    ]


@pytest.mark.parametrize(
    "places, expected",
    [
        ([], (0, "")),
        ([("engine/base_layer.py", "__call__"), ("layers/core/dense.py", "call")], (1, "")),
        ([("engine/base_layer.py", "__call__"), ("engine/base_layer.py", "__call__")], (2, "")),
        ([("losses.py", "__call__"), ("losses.py", "call"), ("losses.py", "huber")], (0, "huber")),
        ([("metrics/base_metric.py", "decorated"), ("losses.py", "huber")], (0, "metrics")),
        ([("optimizers/optimizer.py", "minimize")], (0, "optimizer")),
    ],
)
def test_frames_of_keras_are_found(
    places: list[tuple[str, str]], expected: tuple[int, str]
) -> None:
    assert tuple(source_map.keras_frames(_keras_stack(*places))) == expected


# --- Source locations of ops, in this very file ---


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
    assert _found("Tanh") == (name, line_of(_program, "tf.tanh"))
    assert _found("Sin") == (name, line_of(_program, "tf.sin"))
    assert _found("Cos") == (name, line_of(_program, "tf.cos"))
    assert _found("Atan") == (name, line_of(_program, "tf.atan"))
    assert _found("Exp") == (name, line_of(_called.python_function, "tf.exp"))


def test_gradients_outside_programs_stay_where_requested() -> None:
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
    assert location.line == line_of(step.python_function, "tape.gradient")
    assert location.function == "step"
    assert str(location) == f"{Path(__file__).name}:{location.line} (step)"


@tf.function
def _other(x: tf.Tensor) -> tf.Tensor:
    return tf.sinh(x)


def _gradient(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x)
        y = tf.nn.bias_add(y, tf.zeros([2]))
        y = tf.matmul(y, y)
        y = _other(y)
        y = tf.while_loop(lambda _: True, lambda z: [tf.atan(z)], [y], maximum_iterations=3)[0]
    return tape.gradient(y, x)


def _gradient_of_tensorflow_1(x: tf.Tensor) -> tf.Tensor:
    y = tf.matmul(tf.tanh(x), x)
    return tf.gradients(y, x)[0]


@pytest.mark.parametrize(
    "function, op_type, line",
    [
        (_gradient, "TanhGrad", (_gradient, "tf.tanh")),
        (_gradient, "MatMul", (_gradient, "tf.matmul")),
        # The gradients of functions and loops are functions and loops with those of their ops.
        (_gradient, "Cosh", (_other.python_function, "tf.sinh")),
        (_gradient, "Reciprocal", (_gradient, "tf.atan")),
        (_gradient_of_tensorflow_1, "TanhGrad", (_gradient_of_tensorflow_1, "tf.tanh")),
        (_gradient_of_tensorflow_1, "MatMul", (_gradient_of_tensorflow_1, "tf.matmul")),
    ],
)
def test_gradients_in_programs_have_line_of_forward_op(
    function: Callable[..., tf.Tensor], op_type: str, line: tuple[object, str]
) -> None:
    with trace.cluster_scope():
        concrete = tf.function(function).get_concrete_function(tf.TensorSpec([2, 2]))
    definition = concrete.function_def
    sources = SourceMap(concrete.graph, definition.signature.name)
    functions = [*concrete.graph.as_graph_def().library.function, definition]
    found = [
        sources.origin(one.signature.name, node.name)
        for one in functions
        for node in one.node_def
        if node.op == op_type and "gradient" in node.name
    ]
    assert found
    for origin in found:
        assert origin.location is not None and origin.original
        assert origin.location.line == line_of(*line)


def test_keras_layer_ops_have_line_of_layer_call() -> None:
    layer = keras.layers.Dense(3)
    layer.build([None, 4])

    @tf.function
    def call(x: tf.Tensor) -> tf.Tensor:
        return layer(x)

    graph = call.get_concrete_function(tf.TensorSpec([2, 4])).graph
    product = next(op for op in graph.get_operations() if op.type == "MatMul")
    location = source_of(product)
    assert location is not None
    assert location.line == line_of(call.python_function, "layer(x)")


def test_a_renamed_function_is_searched_by_op() -> None:
    sources = SourceMap(_traced().graph)
    assert sources.lookup("renamed", "no_such_op") is None
    with_loop = [op.name for op in _traced().graph.get_operations() if op.type == "Sum"]
    location = sources.lookup("renamed", with_loop[0])
    assert location is not None and location.line == line_of(_program, "tf.reduce_sum")


def test_an_op_that_was_renamed_for_a_result() -> None:
    def program(x: tf.Tensor) -> Any:
        return [tf.multiply(x, 2.0, name="product")], []

    with tf.Graph().as_default():
        cluster = trace.trace(program, [tf.zeros([])], "program")
    (definition,) = cluster.library().function
    (node,) = (node for node in definition.node_def if node.op == "Mul")
    assert node.name == "product_0"
    origin = SourceMap(cluster.graph, cluster.entry).origin(cluster.entry, node.name)
    assert origin.location is not None
    assert origin.location.line == line_of(program, "tf.multiply")


def test_op_of_a_running_program_has_its_line() -> None:
    concrete = _traced()
    sources = SourceMap(concrete.graph, concrete.function_def.signature.name)
    (name,) = (op.name for op in concrete.graph.get_operations() if op.type == "Sum")
    for function in (concrete.function_def.signature.name, "", "renamed"):
        assert sources.operation(function, name).name == name
        assert sources.operation(function, f"{name}/half/ipu_round").name == name
    assert sources.operation("", "added_by_a_pass") is None


def test_an_op_of_a_pass_has_no_source() -> None:
    concrete = _traced()
    name = concrete.function_def.signature.name
    assert SourceMap(concrete.graph, name).lookup(name, "added_by_a_pass") is None


def test_ops_of_graph_of_tensorflow_1_have_lines() -> None:
    with tf.Graph().as_default() as graph:
        op = tf.constant(1.0, name="made_here").op
    location = SourceMap(graph).lookup("", "made_here")
    assert location == source_of(op)
    assert location is not None
    assert location.function == "test_ops_of_graph_of_tensorflow_1_have_lines"


def test_declared_lines_and_layers_cover_scope() -> None:
    location = SourceLocation("model.py", 7, "build")
    with tf.Graph().as_default() as graph:
        with tf.name_scope("layer"):
            with tf.name_scope("inner"):
                inside = tf.constant(1) + 2
        outside = tf.constant(1) + 2
        source_map.declare(graph, "layer", location, "block")
        source_map.declare(graph, "", None)
    sources = SourceMap(graph)
    origin = sources.origin("", inside.op.name)
    assert (origin.location, origin.layer) == (location, "block")
    assert sources.origin("", outside.op.name).layer is None
    found = sources.lookup("", outside.op.name)
    assert found is not None and found.file == __file__
