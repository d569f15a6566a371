"""Processes that end while a program runs, by a signal or because their main thread is done."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# A program that says on the standard output that it runs, and then never ends.
PROGRAM = """
import sys, threading
import tensorflow as tf
from tensorflow.python import ipu

tf1 = tf.compat.v1
config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
runs = threading.Event()

def say(value):
    print("runs", flush=True)
    runs.set()
    return value

def computation():
    with ipu.scopes.outside_compilation_scope():
        said = tf.numpy_function(say, [tf.ones([4])], tf.float32)
        said.set_shape([4])
    total = ipu.ops.cross_replica_ops.cross_replica_sum
    return ipu.loops.repeat(10**9, lambda x: total(x) * 0.5, [said])

def eager():
    with strategy.scope():
        strategy.run(tf.function(computation, jit_compile=True))

def in_session():
    with tf.Graph().as_default(), tf1.Session() as session:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(computation)
        session.run(result)

def compiling():
    # The end comes while a program is compiled.
    from tensorflow_ipu.compiler import compile as compile_lib
    begin = compile_lib.Check("begin", lambda *args: runs.set())
    compile_lib.TABLE["traced"] = (begin, *compile_lib.TABLE["traced"])
    eager()

def tracing():
    # The end comes while a program is traced, again and again.
    while True:
        runs.set()
        with strategy.scope():
            strategy.run(tf.function(lambda x: x + 1, jit_compile=True), [tf.ones([4])])

def again_and_again():
    while True:
        try:
            eager()
        except tf.errors.OpError:
            pass
"""

END = """
threading.Thread(target={target}, daemon=True).start()
runs.wait()
# The main thread is done.
"""


@pytest.mark.parametrize(
    "target", ["eager", "in_session", "tracing", "compiling", "again_and_again"]
)
def test_the_interpreter_ends_while_a_thread_launches(run_python, target: str) -> None:
    process = run_python(PROGRAM + END.format(target=target))
    assert "Fatal" not in process.stderr
    assert "terminate called" not in process.stderr


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_as_python_does(number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + "eager()"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "runs\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    # By the signal itself: no error code, no core.
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
