"""A Keras model that is refused, and the same model with the printed remedies."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

# Options that the program is started with stand for the edits of its user.
_PROGRAM = """
import json, os, sys
import numpy as np, tensorflow as tf
from tensorflow.python import ipu

edits = json.loads(os.environ["EDITS"])
batch, count, dtype = edits.get("batch", 2048), edits.get("count"), edits.get("dtype", "float32")
tf.keras.backend.set_floatx(dtype)
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.ipu_model.tiles_per_ipu = 16
for line in edits.get("lines", ()):
    exec(line)
config.configure_ipu_system()

with ipu.ipu_strategy.IPUStrategy().scope():
    layers = [tf.keras.layers.Dense(256, "relu", name=f"dense{i}") for i in range(6)]
    model = tf.keras.Sequential([tf.keras.Input((256,)), *layers])
    if count:
        remote = edits["remote"]
        model.set_gradient_accumulation_options(count, offload_weight_update_variables=remote)
    steps = count or 2
    model.compile(tf.keras.optimizers.SGD(0.1, 0.9), "mse", steps_per_execution=steps)
    data = np.zeros((steps * batch, 256), dtype)
    dataset = tf.data.Dataset.from_tensor_slices((data, data)).batch(batch, drop_remainder=True)
    try:
        model.fit(dataset, verbose=0)
    except tf.errors.ResourceExhaustedError as error:
        print("REFUSED", error.message)
        sys.exit()
program = max(ipu.profiler.executables(), key=lambda one: len(one.ops))
print("COMPILED", json.dumps([program.plan.fits, program.plan.fullest.worst_bytes]))
"""


def _run(run_program, edits, engine=None):
    env = {
        "EDITS": json.dumps(edits),
        "TF_POPLAR_FLAGS": "--use_ipu_model --capacity_policy=raise",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if engine:
        env["POPLAR_ENGINE_OPTIONS"] = json.dumps(engine)
    return run_program(_PROGRAM, env=env).stdout


def _edits(steps):
    """The edits that the lines of the tool ask for."""
    edits = {"lines": [f"config.{k} = {v}" for step in steps for k, v in step["options"].items()]}
    text = "\n".join(line for step in steps for line in step["lines"])
    if 'set_floatx("float16")' in text:
        edits["dtype"] = "float16"
    for name, pattern in (
        ("batch", r"dataset\.batch\((\d+)"),
        ("count", r"Keras: .*gradient_accumulation_steps_per_replica=(\d+)"),
    ):
        if found := re.search(pattern, text):
            edits[name] = int(found[1])
    if "count" in edits:
        edits["remote"] = "offload_weight_update_variables=True" in text
    return edits


def test_refused_model_fits_when_printed_lines_are_followed(run_program, tmp_path):
    engine = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    refused = _run(run_program, {}, engine)
    assert "REFUSED" in refused and "is out of memory on IPU 0" in refused
    (report,) = re.findall(r"The report of the program is in (\S+)\. ", refused)
    assert f"tensorflow-ipu remedies {report}" in refused
    command = [sys.executable, "-m", "tensorflow_ipu.cli", "remedies", report, "--json"]
    options = ["--ipus", "1", "--plans", "20", "--without", "optimizer_state"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    best = json.loads(done.stdout)["best"]
    assert best["fits"] and best["steps"]
    compiled = _run(run_program, _edits(best["steps"]))
    fits, worst = json.loads(compiled.split("COMPILED ")[1])
    assert fits
    assert worst == pytest.approx(best["worst_bytes"], rel=0.02)
