"""Tests of `tensorflow-ipu plan`: plans without the memory of variables, and its other ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorflow_ipu.profiler.report import Report
from tests.support.checkout.repository import ROOT

pytestmark = pytest.mark.process

# Keras with Adam. An argument is code to run before `fit`.
KERAS = """\
import resource
import sys
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 64
config.configure_ipu_system()
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ipu.ipu_strategy.IPUStrategy().scope():
    layers = [tf.keras.layers.Dense(WIDTH, kernel_initializer=i) for i in INITIALIZERS]
    model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), *layers])
    model.compile("adam", "mse")
    for code in sys.argv[1:]:
        exec(code)
    element = 2 * (np.zeros((1, WIDTH), np.float32),)
    data = tf.data.Dataset.from_tensors(element).repeat(64)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    print("megabytes:", grown // 1000)
    model.fit(data, verbose=0)
print("trained")
"""

# A graph of TensorFlow 1, whose variables are initialized on the IPU.
SESSION = """\
import sys
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

def step(x):
    with tf.variable_scope("net", use_resource=True):
        x = tf.layers.dense(x, 1024, kernel_initializer=tf.truncated_normal_initializer())
    loss = tf.reduce_mean(x)
    return loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

with tf.device("cpu"):
    x = tf.placeholder(tf.float32, [2, 1024])
with ipu.scopes.ipu_scope("/device:IPU:0"):
    loss = ipu.ipu_compiler.compile(step, [x])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, "missing/model")
    if sys.argv[1:] == ["read"]:
        session.run(tf.trainable_variables()[0])
    session.run(loss, {x: np.ones((2, 1024), np.float32)})
"""


def keras(width: int, *initializers: str) -> str:
    """Returns a program with a layer for each initializer."""
    return KERAS.replace("WIDTH", str(width)).replace("INITIALIZERS", repr(initializers))


def planned(
    folder: Path,
    program: str,
    *arguments: str,
    as_variable: bool = False,
    path: Path = Path("train.py"),
) -> subprocess.CompletedProcess[str]:
    """Runs the command, or the program with the environment variable, in a folder.

    Args:
        folder: the folder.
        program: text of train.py.
        *arguments: of the program.
        as_variable: whether the environment variable asks for the plan.
        path: another program to run.
    """
    (folder / "train.py").write_text(program)
    words = [str(path)] if as_variable else ["-m", "tensorflow_ipu.cli", "plan", str(path)]
    variable = {"TENSORFLOW_IPU_PLAN": "plan.json"} if as_variable else {}
    return subprocess.run(
        [sys.executable, *words, *arguments],
        cwd=folder,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **variable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_large_models_are_planned_without_memory(tmp_path: Path) -> None:
    # 3.2 GB of weights, and twice as much of optimizer state.
    program = keras(16384, "glorot_uniform", "he_normal", "orthogonal")
    process = planned(tmp_path, program, "model.optimizer.build(model.trainable_variables)")
    assert process.returncode == 3, process.stderr
    (grown,) = re.findall(r"megabytes: (\d+)", process.stdout)
    assert int(grown) < 300
    report = Report.load(tmp_path / "plan.json")
    assert report.target["replicas"] == 64 and not report.plan.fits
    assert sum(v.num_bytes for v in report.workload.variables) > 9 * 16384**2 * 4
    assert str(report) in process.stdout and "trained" not in process.stdout
    assert "at its first launch, at " in process.stdout
    assert "tensorflow-ipu remedies" in process.stdout


def test_a_program_that_fits_ends_with_success(tmp_path: Path) -> None:
    process = planned(tmp_path, keras(512, "zeros"), as_variable=True)
    assert process.returncode == 0, process.stderr
    assert Report.load(tmp_path / "plan.json").plan.fits
    assert "trained" not in process.stdout


@pytest.mark.parametrize(
    "code", ["model.weights[0].numpy()", "bool(tf.reduce_sum(model.weights[0]) > 0)"]
)
def test_values_that_are_needed_end_the_program(tmp_path: Path, code: str) -> None:
    process = planned(tmp_path, keras(512, "uniform"), code)
    assert process.returncode == 2, process.stderr
    assert re.search(
        r"needs the value of a tensor of the shape .* at .*train.py:16", process.stderr
    )
    assert not (tmp_path / "plan.json").exists()


def test_sessions_initialize_variables_without_values(tmp_path: Path) -> None:
    process = planned(tmp_path, SESSION)
    assert process.returncode == 0, process.stderr
    assert "train.py:26 (<module>): it was only planned" in process.stdout
    assert len(Report.load(tmp_path / "plan.json").workload.variables) == 4
    assert not (tmp_path / "missing").exists()


def test_fetched_values_are_needed_by_their_name(tmp_path: Path) -> None:
    process = planned(tmp_path, SESSION, "read")
    assert process.returncode == 2
    assert re.search(r"value of net/dense/kernel.*, at .*train.py:25", process.stderr)


def test_errors_before_launch_are_the_programs(tmp_path: Path) -> None:
    process = planned(tmp_path, keras(512, "zeros"), "raise RuntimeError('no data')")
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1] == "RuntimeError: no data"


@pytest.mark.parametrize(
    ("example", "arguments", "replicas"),
    [
        ("popxl_gpt.py", ["--replicas", "64"], 64),  # on 256 IPUs
        ("popart_digits.py", [], 1),
        ("estimator_digits.py", [], 1),
    ],
)
def test_front_ends_end_at_their_first_launch(
    tmp_path: Path, example: str, arguments: list[str], replicas: int
) -> None:
    process = planned(tmp_path, "", *arguments, path=ROOT / "examples" / example)
    assert process.returncode == 0, process.stderr
    assert Report.load(tmp_path / "plan.json").target["replicas"] == replicas
    assert re.search(rf"first launch, at .*{example}:\d+ ", process.stdout)


def test_programs_without_a_launch_are_refused(tmp_path: Path) -> None:
    process = planned(tmp_path, "from tensorflow.python import ipu")
    assert process.returncode == 2
    assert "tensorflow-ipu plan: The program has launched nothing on the IPU" in process.stderr
