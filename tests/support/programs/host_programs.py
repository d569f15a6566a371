"""Programs that use no IPU, one for each hook, and a process that reports their results.

They run in stock TensorFlow, then with the hooks installed, then once IPUs have been used.

    python -m tests.support.programs.host_programs

prints as JSON what each of them did these three times, and which attributes of TensorFlow and Keras
are others after all public modules were imported:
`{"found": {name: [value, value, value]}, "replaced": [name]}`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.autograph.impl import conversion
from tensorflow.python.ops import control_flow_util

tf1 = tf.compat.v1
_PACKAGES = ("tensorflow", "keras", "tf_keras")
_OURS = ("tensorflow.python.ipu", "tensorflow.compiler.plugin.poplar")
X = np.array([1.0, 2.0, 3.0], np.float32)


def _form(graph: Any) -> list[Any]:
    """Returns the visible form of a graph's ops, except for functions, which are numbered."""
    return [
        [
            op.name,
            op.type,
            op.device,
            sorted(op.node_def.attr),
            getattr(op._original_op, "name", ""),
        ]
        for op in graph.get_operations()
    ]


def _error_of(function: Callable[[], Any]) -> list[str]:
    try:
        function()
    except Exception as error:
        return [
            type(error).__name__,
            *(word for word in ("NaN", "float16", "half", "strings") if word in str(error)),
        ]
    return []


def autograph() -> Any:
    """A function with a Python loop over tensors; whose calls AutoGraph converts."""

    def double(n: Any) -> Any:
        total = 0
        while n > 0:
            total += n
            n -= 1
        return total

    unconverted = [conversion.is_allowlisted(one) for one in (double, np.sum, tf.exp)]
    return [int(tf.function(double)(tf.constant(4))), unconverted]


def functions() -> Any:
    """Functions for XLA: their results, compiled text, and refusals."""
    function = tf.function(lambda x: tf.exp(x), jit_compile=True)
    result = function(tf.constant(X))
    text = function.experimental_get_compiler_ir(tf.constant(X))(stage="hlo")
    on_strings = tf.function(lambda x: tf.strings.as_string(x), jit_compile=True)
    refused = _error_of(lambda: on_strings(tf.constant(X)))
    tracings = function.experimental_get_tracing_count()
    return [result.numpy().tolist(), result.device, "exponential" in text, refused[0], tracings]


def datasets() -> Any:
    """Iterators over a dataset, in eager mode and in a function."""
    iterator = iter(tf.data.Dataset.range(3))

    @tf.function
    def total() -> Any:
        result = tf.constant(0, tf.int64)
        for value in tf.data.Dataset.range(4):
            result += value
        return result

    return [str(type(iterator)), [int(value) for value in iterator], int(total())]


def control_flow() -> Any:
    """Loops and conditionals of both generations."""
    forms = []
    for functional in (False, True):
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = functional
        with tf.Graph().as_default() as graph, tf.device("/device:CPU:0"):
            tf1.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
            tf1.cond(tf1.placeholder(tf.bool), lambda: 1, lambda: 2)
        forms.append(_form(graph))
        for name in sorted(graph._functions):
            forms.append(_form(graph._get_function(name).graph))
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = True
    return forms


def batch_normalization() -> Any:
    """Scales of float32, and of float16, which TensorFlow's op does not take."""
    x = tf.reshape(tf.range(8.0), [1, 2, 1, 4])
    wide, short = tf.ones([4]), tf.ones([4], tf.float16)
    values = tf1.nn.fused_batch_norm(x, wide, wide)[0]
    refused = _error_of(lambda: tf1.nn.fused_batch_norm(tf.cast(x, tf.float16), short, short))
    return [values.numpy().tolist(), refused]


@tf.custom_gradient
def _clipped(x: Any) -> Any:
    return tf.abs(x), lambda gradient: tf.clip_by_value(gradient, -0.5, 0.5)


def gradients() -> Any:
    """Gradients of tapes and graphs: of ops, of functions, custom ones; and the ops they are."""
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sin(x) * x + _clipped(x) * tf.function(lambda v: v * v)(x))
    eager = tape.gradient(y, x)

    @tf.function
    def traced(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x) * x + _clipped(x)
        return tape.gradient(y, x)

    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [3])
        tf1.gradients(tf.sin(x) * x + _clipped(x), x)
    concrete = traced.get_concrete_function(tf.TensorSpec([3]))
    return [eager.numpy().tolist(), _form(concrete.graph), _form(graph)]


def calls() -> Any:
    """Sessions and functions: results, errors, and Ctrl-C while they run."""
    found: list[Any] = []

    def interrupted(x: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return x

    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [])
        y = x + 1
        found.append(float(session.run(y, {x: 2.0})))
        found.append(
            _error_of(lambda: session.run(tf.debugging.check_numerics(x, "no"), {x: np.nan}))
        )
        handle = session.partial_run_setup([y], [x])
        found.append(float(session.partial_run(handle, y, {x: 2.0})))
        try:
            session.run(tf.numpy_function(interrupted, [x], tf.float32), {x: 2.0})
        except KeyboardInterrupt:
            found.append("KeyboardInterrupt")
    function = tf.function(lambda x: tf.debugging.check_numerics(x, "no") + 1)
    found.append(float(function(2.0)))
    found.append(_error_of(lambda: function(np.nan)))
    return found


def graphs() -> Any:
    """Graphs: their attributes, and that they go with their last user."""
    with tf.Graph().as_default() as graph, tf1.Session():
        tf.constant(1)
    function = tf.function(lambda: tf.constant(1)).get_concrete_function()
    attributes = [dir(graph), dir(function.graph)]
    gone = weakref.ref(graph)
    del graph
    return [*attributes, gone() is None]


PROGRAMS = [
    autograph,
    functions,
    datasets,
    control_flow,
    batch_normalization,
    gradients,
    calls,
    graphs,
]


def _use_ipus() -> None:
    """Trains on an IPU, and makes a program with shards."""
    from tensorflow_ipu.api import scopes
    from tensorflow_ipu.api.config import IPUConfig
    from tensorflow_ipu.distributed import ipu_strategy

    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weight = tf.Variable(2.0)

        @tf.function(jit_compile=True)
        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.square(weight)
            weight.assign_sub(tape.gradient(loss, weight))
            return loss

        assert float(strategy.run(step)) == 4.0
    with tf.Graph().as_default(), scopes.ipu_shard(1):
        tf.constant(1)


def _attributes() -> dict[str, Any]:
    """Returns the attributes of the modules of TensorFlow and Keras, and of the classes in them."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in _PACKAGES or name.startswith(_OURS):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            found[f"{name}.{attribute}"] = value
            if isinstance(value, type) and value.__module__ == name:
                members = list(vars(value).items())
                found.update({f"{name}.{attribute}.{member}": one for member, one in members})
    return found


def _import_all() -> list[str]:
    """Imports all public modules; returns the names whose objects changed by that."""
    # TensorFlow imports these when they are used, and adds to what it has.
    assert tf.keras.Model
    assert tf.losses.Loss
    before = _attributes()
    from tensorflow.python import ipu

    same = _attributes()
    assert all(value is same[name] for name, value in before.items()), ipu
    # From TensorFlow 2.16 on there are Estimators only now. They add to TensorFlow's classes, too.
    assert issubclass(tf.estimator.Estimator, tf1.estimator.Estimator)
    before = _attributes()
    from tensorflow_ipu.import_hook import tables

    for name in tables.MODULES:
        importlib.import_module(f"tensorflow_ipu.{name}")
    after = _attributes()
    return sorted(name for name, value in before.items() if after.get(name) is not value)


def main() -> None:
    """Runs all programs three times."""
    found: dict[str, list[Any]] = {program.__name__: [] for program in PROGRAMS}
    replaced: list[str] = []
    for prepare in (lambda: None, lambda: replaced.extend(_import_all()), _use_ipus):
        prepare()
        for program in PROGRAMS:
            found[program.__name__].append(program())
    print(json.dumps({"found": found, "replaced": replaced}))


if __name__ == "__main__":
    main()
