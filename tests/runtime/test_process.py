"""Children of a process that uses IPUs: forks get an error, others work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FORK = """
import gc, os, sys
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

tf1 = tf.compat.v1

def configure():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

@tf.function(jit_compile=True)
def add(x):
    return x + 1

# A fork of a process that has not used anything may use IPUs.
child = os.fork()
if child == 0:
    configure()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        os._exit(int(strategy.run(add, [tf.constant(41)])))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42

configure()
strategy = ipu.ipu_strategy.IPUStrategy()

def run():
    with strategy.scope():
        return strategy.run(add, [tf.ones([2])])

@tf.function
def around():
    return run()

def fit():
    return model.fit(np.ones((8, 4)), np.ones((8, 1)), 2, verbose=0)

with tf.Graph().as_default():
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(lambda: tf.constant(1.0) + 1)
    session = tf1.Session()
    session.run(result)
run(), around()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
    model.compile("sgd", "mse", steps_per_execution=2)
fit()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors([1.0]).repeat())
infeed.initializer

@tf.function(jit_compile=True)
def read():
    return ipu.loops.repeat(3, lambda total, x: total + x, [tf.zeros([1])], infeed)

with strategy.scope():
    strategy.run(read)

child = os.fork()
if child == 0:
    for use in (
        configure,
        run,
        around,
        fit,
        lambda: session.run(result),
        lambda: infeed.initializer,
        lambda: strategy.scope().__enter__(),
    ):
        try:
            use()
        except tf.errors.FailedPreconditionError as error:
            assert "forked" in str(error) and "spawn" in str(error), error
        else:
            raise AssertionError(use)
    # What frees native parts, in the parent, does not wait for threads that are not here.
    del infeed, model, read, add, session, result
    gc.collect()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
# The parent goes on.
np.testing.assert_array_equal(run(), [2, 2])
fit()
"""

SPAWN = """
import multiprocessing
import tensorflow as tf
from tensorflow.python import ipu

def launch(x):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        return float(strategy.run(tf.function(lambda x: x + 1), [tf.constant(x)]))

if __name__ == "__main__":
    assert launch(1.0) == 2.0
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(launch, [1.0, 2.0]) == [2.0, 3.0]
"""


def test_fork_of_process_that_uses_ipus_gets_error(run_python) -> None:
    run_python(FORK)


@pytest.mark.process
def test_a_spawned_process_launches(tmp_path: Path) -> None:
    # It imports the program of its parent, which therefore has to be a file.
    program = tmp_path / "program.py"
    program.write_text(SPAWN, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr
