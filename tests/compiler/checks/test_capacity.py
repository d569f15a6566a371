"""Tests of the capacity check at compile time: policies, cost, and remedies that are applied."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu import profiler
from tensorflow_ipu.api import config, ipu_compiler, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.checks import capacity
from tensorflow_ipu.configs import flags
from tensorflow_ipu.planner import planning
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.runtime import system

ROWS = 1024


@pytest.fixture
def flagged(monkeypatch):
    """Returns a function that sets the flags of this process, and puts them back afterwards."""

    def set_flags(text):
        monkeypatch.setenv(flags.VARIABLE, text)
        flags._reset_for_tests()
        system.reset_ipu_configuration()

    yield set_flags
    monkeypatch.undo()
    flags._reset_for_tests()
    system.reset_ipu_configuration()


def _configure(tiles=0, **options):
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = 1
    if tiles:
        cfg.ipu_model.tiles_per_ipu = tiles
    for name, value in options.items():
        setattr(cfg, name, value)
    cfg.configure_ipu_system()


def _run(matrices, rows=ROWS, transposed=False):
    """Runs a product with some variables of `rows x rows` floats."""
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(np.float32, [2, rows])

        def computation(value):
            for index in range(matrices):
                with tf.compat.v1.variable_scope(f"layer{index}", use_resource=True):
                    weight = tf.compat.v1.get_variable("kernel", [rows, rows])
                value = tf.matmul(value, tf.transpose(weight) if transposed else weight)
            return value

        with scopes.ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(computation, [x])
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            return session.run(result, {x: np.ones((2, rows), np.float32)})


@pytest.fixture
def warnings(monkeypatch):
    """Warnings that the check logged."""
    logged = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: logged.append(text % args))
    return logged


def test_variables_that_do_not_fit_are_refused(flagged, warnings):
    """Three matrices of 4 MiB, 8 tiles of 624 KiB: 12 MiB in 4.9 MiB."""
    flagged("--use_ipu_model")
    _configure(8)
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        _run(3)
    text = str(caught.value)
    assert "is out of memory on IPU 0 of 1" in text
    assert "8 of 8 tiles have more than the 638,976 B that fit" in text
    assert "layer0/kernel" in text
    assert "test_capacity.py:" in text
    assert "Remedies, those that suffice first:" in text
    assert not warnings
    assert cache.executables() == []
    # The process is as good as before.
    assert np.isfinite(_run(1, rows=16)).all()
    assert len(cache.executables()) == 1


def _refused():
    """The error of a program that does not fit."""
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        _run(3)
    return caught.value.message


def test_without_reports_error_says_how_to_get_one(flagged):
    flagged("--use_ipu_model")
    _configure(8)
    text = _refused()
    (options,) = re.findall(r"set POPLAR_ENGINE_OPTIONS='(\{.*?\})' in the environment", text)
    assert json.loads(options) == {"autoReport.all": "true", "autoReport.directory": "reports"}
    assert "then tensorflow-ipu remedies reports" in text


def test_a_refused_program_has_its_report(flagged, tmp_path):
    flagged("--use_ipu_model")
    engine = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    _configure(8, compilation_poplar_options=engine)
    (folder,) = re.findall(r"The report of the program is in (\S+)\. ", _refused())
    report = Report.load(folder)
    assert not report.plan.fits
    assert report.insights["remedies"]
    assert f"{__file__}:" in report.options["configured_at"]


def test_refused_program_is_reported_at_profile_end(flagged, tmp_path):
    flagged("--use_ipu_model")
    _configure(8)
    with profiler.profile(tmp_path) as profiled:
        assert f"will be in a directory in {tmp_path} when the profile()" in _refused()
    (folder,) = profiled.directories
    assert not Report.load(folder).plan.fits
    with profiler.profile() as profiled:
        assert ".reports[-1].save(" in _refused()
    assert not profiled.reports[-1].plan.fits


@pytest.mark.parametrize(
    ("policy", "matrices", "transposed", "action"),
    [
        ("default", 1, True, "warn"),
        ("default", 3, False, "raise"),
        ("raise", 1, True, "raise"),
        ("warn", 3, False, "warn"),
        ("mark", 3, False, ""),
    ],
)
def test_each_policy_raises_warns_or_marks(flagged, warnings, policy, matrices, transposed, action):
    """One matrix fits, but not the copy of it in another order besides."""
    flagged(f"--use_ipu_model --capacity_policy={policy}")
    _configure(8)
    if action == "raise":
        with pytest.raises(tf.errors.ResourceExhaustedError, match="out of memory"):
            _run(matrices, transposed=transposed)
        return
    _run(matrices, transposed=transposed)
    assert len(warnings) == (action == "warn")
    assert all("out of memory" in text for text in warnings)
    (executable,) = cache.executables()
    assert not executable.plan.fits
    _run(matrices, transposed=transposed)  # an equal program
    assert len(warnings) == (action == "warn")


def test_out_of_memory_can_be_allowed(flagged, warnings):
    flagged("--use_ipu_model --capacity_policy=raise")
    _configure(8, compilation_poplar_options={"debug.allowOutOfMemory": "true"})
    assert capacity.chosen_policy(system.current().with_environment()) == "mark"
    _run(3)
    assert not warnings
    assert not cache.executables()[0].plan.fits


def test_the_environment_can_allow_it(monkeypatch):
    monkeypatch.setenv(flags.ENGINE_OPTIONS, '{"debug.allowOutOfMemory": "true"}')
    assert capacity.chosen_policy(system.current().with_environment()) == "mark"
    monkeypatch.setenv(flags.ENGINE_OPTIONS, '{"debug.allowOutOfMemory": "false"}')
    assert capacity.chosen_policy(system.current().with_environment()) == "default"


def test_a_program_far_from_full_is_not_planned(monkeypatch):
    monkeypatch.setattr(planning, "plan", lambda *_: pytest.fail("planned"))
    _configure()
    _run(2, rows=64)
    (executable,) = cache.executables()
    assert "ops" not in vars(executable)  # not even its ops were listed


def test_a_program_of_the_host_is_not_checked(flagged):
    flagged("--use_ipu_model --capacity_policy=raise")
    _configure(1)
    with tf.Graph().as_default():
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(lambda: tf.zeros([1024, 1024]))
        with tf.compat.v1.Session() as session:
            assert session.run(result).shape == (1024, 1024)


_TOO_BIG = """
import contextlib, re
import numpy as np, tensorflow as tf
from tensorflow_ipu import config, ipu_strategy
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage

LAYERS, TILES = 14, 16

def fit(ipus, stages=None, count=1, recompute=False, remote=True):
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = ipus
    cfg.ipu_model.tiles_per_ipu = TILES
    cfg.allow_recompute = recompute
    cfg.configure_ipu_system()
    with ipu_strategy.IPUStrategy().scope():
        x = value = tf.keras.Input((512,))
        for i in range(LAYERS):
            with PipelineStage(stages[i]) if stages else contextlib.nullcontext():
                value = tf.keras.layers.Dense(512, name=f"dense{i}")(value)
        model = tf.keras.Model(x, value)
        if stages:
            model.set_pipelining_options(
                gradient_accumulation_steps_per_replica=count,
                offload_weight_update_variables=remote,
            )
        model.compile(tf.keras.optimizers.SGD(0.1, 0.9), "mse", steps_per_execution=count)
        batch = np.zeros((2, 512), np.float32)
        data = tf.data.Dataset.from_tensors((batch, batch)).repeat(count)
        return model.fit(data, verbose=0).history["loss"][0]

try:
    fit(1)
except tf.errors.ResourceExhaustedError as error:
    text = error.message
entries = re.split(r"\\n  \\d+\\. ", text.split("Remedies, those that suffice first:")[1])[1:]
assert "; fits" in entries[0], entries[0]
# One that keeps the types of data.
first = next(e for e in entries if "pipeline with" in e and "; fits" in e and "float16" not in e)
worst = re.search(r"Worst tile \\d+: ([\\d,]+) B of ([\\d,]+) B", text)
needed, capacity = (int(number.replace(",", "")) for number in worst.groups())
assert needed >= 3 * capacity, (needed, capacity)
ipus = int(re.search(r"auto_select_ipus = (\\d+)", first).group(1))
count = int(re.search(r"gradient_accumulation_steps_per_replica=(\\d+)", first).group(1))
stages = {}
for stage, layers in re.findall(r"stage (\\d+): (.*)", first):
    numbers = [int(number) for number in re.findall(r"dense(\\d+)", layers)]
    stages.update(dict.fromkeys(range(numbers[0], numbers[-1] + 1), int(stage)))
assert sorted(stages) == list(range(LAYERS))
recompute = "config.allow_recompute = True" in first
remote = "offload_weight_update_variables=True" in first
assert fit(ipus, stages, count, recompute, remote) == 0
executable = max(cache.executables(), key=lambda e: len(e.variables))
plan = executable.plan
assert plan.fits
said = int(re.search(r"worst tile ([\\d,]+) B", first).group(1).replace(",", ""))
print("said", said, "planned", plan.fullest.worst_bytes)
"""


def test_first_remedy_fits_model_three_times_too_big(run_program):
    """Weights and momentum of 28 MiB on an IPU of 9.75 MiB; the remedy is taken from the text."""
    process = run_program(
        _TOO_BIG, env={"TF_POPLAR_FLAGS": "--use_ipu_model", "TF_CPP_MIN_LOG_LEVEL": "3"}
    )
    said, planned = map(int, re.search(r"said (\d+) planned (\d+)", process.stdout).groups())
    assert planned == pytest.approx(said, rel=0.02)
