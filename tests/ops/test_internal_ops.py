"""Tests of `internal_ops.print_tensor`: what arrives at the standard error of a process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_compiler, scopes
from tensorflow_ipu.device import system
from tensorflow_ipu.ops import internal_ops

# The three programs of the reference, section 18.14.4, and what else is to be printed. One
# process runs them all, because starting TensorFlow is most of the work. Each prints its results
# to the standard output, and a line to the standard error that tells its output from the next.
_PROGRAMS = """
import sys
import numpy as np
import tensorflow as tf
from tensorflow_ipu import config, ipu_compiler, ipu_strategy, loops, scopes
from tensorflow_ipu.ops import internal_ops
tf1 = tf.compat.v1

def configure(ipus):
    settings = config.IPUConfig()
    settings.auto_select_ipus = ipus
    settings.configure_ipu_system()

def begin(name):
    print("=== " + name, file=sys.stderr, flush=True)
    print("=== " + name, flush=True)

configure(1)

begin("returned")
with tf.Graph().as_default():
    def my_net(v):
        print_op = internal_ops.print_tensor(v)
        v = v + 1
        return v, print_op
    v = tf1.placeholder(np.float32, [2, 2])
    with scopes.ipu_scope("/device:IPU:0"):
        res = ipu_compiler.compile(my_net, inputs=[v])
    with tf1.Session() as session:
        print(session.run(res, {v: np.full([2, 2], 5)})[0].tolist())

begin("fetched")
with tf.Graph().as_default():
    with scopes.ipu_scope("/device:IPU:0"):
        pa = tf1.placeholder(np.float32, [2, 2], name="a")
        print_op = internal_ops.print_tensor(pa)
        x = pa + 1
    with tf1.Session() as session:
        print(session.run([x, print_op], feed_dict={pa: np.ones([2, 2])})[0].tolist())

begin("dependency")
with tf.Graph().as_default():
    with scopes.ipu_scope("/device:IPU:0"):
        pa = tf1.placeholder(np.float32, [2, 2], name="a")
        print_op = internal_ops.print_tensor(pa, name="mine")
        with tf.control_dependencies([print_op]):
            x = pa + 1
    with tf1.Session() as session:
        print(session.run(x, feed_dict={pa: np.full([2, 2], 3)}).tolist())

begin("loop")
with tf.Graph().as_default():
    def body(value):
        return value * 2.0, internal_ops.print_tensor(value, name="step")
    with scopes.ipu_scope("/device:IPU:0"):
        (result,) = ipu_compiler.compile(lambda: loops.repeat(4, body, [1.0]))
    with tf1.Session() as session:
        print(session.run(result))

begin("not returned")
with tf.Graph().as_default():
    def silent(value):
        internal_ops.print_tensor(value)
        return value + 1
    with scopes.ipu_scope("/device:IPU:0"):
        (result,) = ipu_compiler.compile(silent, [tf.constant(1.0)])
    with tf1.Session() as session:
        print(session.run(result))

begin("types")
with tf.Graph().as_default():
    values = [np.int32([1, -2]), np.array(True), np.float16([0.5]), np.zeros([0], np.float32)]
    with scopes.ipu_scope("/device:IPU:0"):
        result = ipu_compiler.compile(
            lambda *all: [internal_ops.print_tensor(v, name=f"v{i}") for i, v in enumerate(all)],
            values,
        )
    with tf1.Session() as session:
        session.run(result)

begin("large")
with tf.Graph().as_default():
    with scopes.ipu_scope("/device:IPU:0"):
        result = ipu_compiler.compile(
            lambda v: internal_ops.print_tensor(v, name="all"), [np.arange(2000, dtype=np.int32)]
        )
    with tf1.Session() as session:
        session.run(result)

begin("function")
strategy = ipu_strategy.IPUStrategy()
with strategy.scope():
    @tf.function(jit_compile=True)
    def step(value):
        internal_ops.print_tensor(value, name="traced")
        return value + 1
    print(strategy.run(step, [tf.constant(7.0)]).numpy())

begin("eager")
internal_ops.print_tensor(tf.constant([1.5]), name="now")

begin("end")
"""


@pytest.fixture(scope="module")
def printed() -> dict[str, tuple[list[str], list[str]]]:
    """The lines of the standard output and standard error of each program."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAMS)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    output, errors = _sections(process.stdout), _sections(process.stderr)
    return {name: (output[name], errors[name]) for name in errors}


def _sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("=== "):
            lines = sections.setdefault(line[4:], [])
        else:
            lines.append(line)
    return sections


Printed = dict[str, tuple[list[str], list[str]]]


def test_returned_from_the_program(printed: Printed) -> None:
    output, errors = printed["returned"]
    assert output == ["[[6.0, 6.0], [6.0, 6.0]]"]
    assert "".join(errors).count("5") == 4
    assert "[[5 5]" in errors[0]


def test_fetched_by_the_session(printed: Printed) -> None:
    output, errors = printed["fetched"]
    assert output == ["[[2.0, 2.0], [2.0, 2.0]]"]
    assert "".join(errors).endswith("[[1 1] [1 1]]") or "[[1 1]" in errors[0]
    assert errors[0].startswith("a:0: ")


def test_control_dependency(printed: Printed) -> None:
    output, errors = printed["dependency"]
    assert output == ["[[4.0, 4.0], [4.0, 4.0]]"]
    assert errors[0].startswith("mine: [[3 3]")


def test_every_iteration_of_a_loop_in_order(printed: Printed) -> None:
    output, errors = printed["loop"]
    assert output == ["16.0"]
    assert errors == ["step: 1", "step: 2", "step: 4", "step: 8"]


def test_not_printed_unless_the_operation_runs(printed: Printed) -> None:
    assert printed["not returned"] == (["2.0"], [])


def test_types(printed: Printed) -> None:
    lines = sorted(printed["types"][1])
    assert lines == ["v0: [1 -2]", "v1: 1", "v2: [0.5]", "v3: []"]


def test_large_tensors_are_printed_whole(printed: Printed) -> None:
    (line,) = printed["large"][1]
    assert line == "all: [" + " ".join(map(str, range(2000))) + "]"


def test_in_a_function_no_operation_has_to_be_returned(printed: Printed) -> None:
    assert printed["function"] == (["8.0"], ["traced: 7"])


def test_in_eager_mode(printed: Printed) -> None:
    assert printed["eager"][1] == ["now: [1.5]"]


class TestOperation:
    """What the function returns."""

    @pytest.fixture(autouse=True)
    def graph(self) -> Iterator[None]:
        with tf.Graph().as_default():
            yield
        system.reset_ipu_configuration()

    def test_is_an_operation(self) -> None:
        assert isinstance(internal_ops.print_tensor(tf.constant(1.0)), tf.Operation)

    def test_name(self) -> None:
        assert internal_ops.print_tensor(tf.constant(1.0), name="mine").name == "mine"

    def test_takes_what_converts_to_a_tensor(self) -> None:
        with scopes.ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(lambda: internal_ops.print_tensor(np.ones(2)[:0] > 0))
        assert isinstance(result, tf.Operation)

    def test_refuses_what_does_not(self) -> None:
        with pytest.raises((TypeError, ValueError)):
            internal_ops.print_tensor(object())
