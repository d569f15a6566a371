"""Tests of reports that options ask for: folders, files, precedence and omissions."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu import profiler
from tensorflow_ipu.configs import flags
from tensorflow_ipu.configs.enums import ExecutionProfileType
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.profiler import report_directory
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.runtime import system
from tests.support.reports import profiled

FILES = {"framework.json", "profile.pop", "report.html", "report.json", "summary.txt", "trace.json"}


def _engine(directory: object, **options: str) -> dict[str, str]:
    named = {f"autoReport.{name}": value for name, value in options.items()}
    return {"autoReport.directory": str(directory), **named}


def _written(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.exists() else []


@pytest.fixture
def warnings(monkeypatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: found.append(text % args))
    monkeypatch.setattr(logging, "exception", lambda text, *args: pytest.fail(text % args))
    return found


def test_the_directory_of_a_program_has_all_files(tmp_path) -> None:
    profiled.configure(compilation_poplar_options=_engine(tmp_path / "a" / "b", all="true"))
    profiled.run()
    (folder,) = _written(tmp_path / "a" / "b")
    time = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}"
    assert re.fullmatch(f"tf_report__{time}__{os.getpid()}", folder.name)
    assert {path.name for path in folder.iterdir()} == FILES
    report = Report.load(folder)
    assert [variable.name for variable in report.workload.variables] == ["weights"]
    assert "MatMul" in {op.type for op in report.workload.ops}
    assert json.loads((folder / "profile.pop").read_text()) == json.loads(
        (folder / "report.json").read_text()
    )
    framework = json.loads((folder / "framework.json").read_text())
    assert framework["options"]["config"]["auto_select_ipus"] == [1]
    assert framework["options"]["engine"]["autoReport.all"] == "true"
    assert report.name in (folder / "summary.txt").read_text()


def test_launches_are_renewed_when_the_configuration_is_reset(tmp_path) -> None:
    profiled.configure(compilation_poplar_options=_engine(tmp_path, all="true"))
    profiled.run(launches=3)
    (folder,) = _written(tmp_path)
    assert Report.load(folder).executions == Executions()
    system.reset_ipu_configuration()
    executions = Report.load(folder).executions
    assert executions.launches == 3 and executions.host_seconds > 0
    assert "3 launches" in (folder / "summary.txt").read_text()
    assert _written(tmp_path) == [folder]


def test_launches_are_renewed_from_another_current_directory(
    tmp_path, monkeypatch, warnings
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    profiled.configure(compilation_poplar_options=_engine("reports", all="true"))
    profiled.run()
    monkeypatch.chdir("elsewhere")
    system.reset_ipu_configuration()
    (folder,) = _written(tmp_path / "reports")
    assert Report.load(folder).executions.launches == 1 and not warnings


def test_each_program_has_its_own(tmp_path) -> None:
    profiled.configure(2, compilation_poplar_options=_engine(tmp_path, outputGraphProfile="true"))
    profiled.run(8)
    profiled.run(16)
    first, second = map(Report.load, _written(tmp_path))
    assert first.workload.fingerprint != second.workload.fingerprint
    assert {first.target["replicas"], second.target["replicas"]} == {2}
    assert not (_written(tmp_path)[0] / "trace.json").exists()


@pytest.mark.parametrize(
    "engine, private, environment, expected",
    [
        ({}, {}, {}, None),
        ({"debug.instrument": "true"}, {}, {}, None),
        ({"autoReport.directory": "c"}, {}, {}, None),
        ({"autoReport.all": "false"}, {}, {}, None),
        ({"autoReport.all": "true"}, {}, {}, (".", True, 1)),
        ({"autoReport.outputGraphProfile": "true"}, {}, {}, (".", False, 1)),
        ({"autoReport.outputExecutionProfile": "true"}, {}, {}, (".", True, 1)),
        ({"autoReport.outputDebugInfo": "true"}, {}, {}, (".", False, 1)),
        (
            {"autoReport.all": "true", "autoReport.outputExecutionProfile": "false"},
            {},
            {},
            (".", False, 1),
        ),
        ({"autoReport.all": "true"}, {}, {"autoReport.all": "false"}, None),
        ({"autoReport.all": "false"}, {}, {"autoReport.all": "true"}, (".", True, 1)),
        (
            {"autoReport.all": "true", "autoReport.directory": "c"},
            {"report_directory": "p"},
            {"autoReport.directory": "e", "autoReport.executionProfileProgramRunCount": "3"},
            ("e", True, 3),
        ),
        (
            {"autoReport.all": "true", "autoReport.directory": "c"},
            {"report_directory": "p"},
            {},
            ("c", True, 1),
        ),
        ({}, {"report_directory": "p"}, {}, ("p", False, 1)),
        (
            {},
            {
                "report_directory": "p",
                "profiling": True,
                "profile_execution": ExecutionProfileType.TILE_PROFILE,
            },
            {},
            ("p", True, 1),
        ),
        ({}, {"profiling": True}, {}, None),
        ({"autoReport.outputGraphProfile": "false"}, {"report_directory": "p"}, {}, None),
    ],
    ids=range(17),
)
def test_later_sources_of_options_override_earlier_ones(
    engine, private, environment, expected, monkeypatch
) -> None:
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(environment))
    profiled.configure(compilation_poplar_options=engine, **private)
    found = report_directory.read(system.current().with_environment())
    assert (found and (found.directory, found.execution, found.launches)) == expected


@pytest.mark.parametrize(
    "name, value",
    [
        ("all", "yes"),
        ("executionProfileProgramRunCount", "0"),
        ("executionProfileProgramRunCount", "1001"),
        ("all", "True"),
    ],
)
def test_values_that_options_do_not_take(name, value, monkeypatch) -> None:
    text = json.dumps({f"autoReport.{name}": value})
    with monkeypatch.context() as environment:
        environment.setenv("POPLAR_ENGINE_OPTIONS", text)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"autoReport.{name}.*'{value}'"):
            profiled.configure()
    profiled.configure()
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", text)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"autoReport.{name}.*'{value}'"):
        profiled.run()


def test_no_option_no_files(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    profiled.configure()
    profiled.run()
    assert not _written(tmp_path)


def test_program_runs_when_its_report_cannot_be_written(tmp_path, warnings) -> None:
    (tmp_path / "file").write_text("")
    profiled.configure(compilation_poplar_options=_engine(tmp_path / "file" / "x", all="true"))
    profiled.run(launches=2)
    profiled.run(16)
    assert len(warnings) == 1
    assert str(tmp_path / "file" / "x") in warnings[0] and "may be written" in warnings[0]


@pytest.mark.parametrize("step", ["mkdir", "fdopen", "replace"])
def test_training_runs_to_its_end_on_full_disk(tmp_path, monkeypatch, warnings, step) -> None:
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    options = _engine(tmp_path / "reports", all="true")
    profiled.configure(compilation_poplar_options=options)
    monkeypatch.setattr(os, step, fail)
    callback = profiler.Callback(tmp_path / "callback")
    with ipu_strategy.IPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        model.compile("sgd", "mse", steps_per_execution=2)
        data = tf.data.Dataset.from_tensors((np.ones((4, 3), np.float32), np.ones((4, 2))))
        model.fit(data.repeat(4), epochs=2, verbose=0, callbacks=[callback])
    system.reset_ipu_configuration()
    monkeypatch.undo()
    assert len(callback.reports) == 1
    assert len(warnings) == 2 and all("No space left" in warning for warning in warnings)
    assert str(tmp_path / "reports") in warnings[0] and str(tmp_path / "callback") in warnings[1]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_reports_are_for_the_user_only(tmp_path) -> None:
    profiled.configure(compilation_poplar_options=_engine(tmp_path / "reports", all="true"))
    before = os.umask(0)
    try:
        profiled.run()
    finally:
        os.umask(before)
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {True: 0o700, False: 0o600}


def test_directory_that_is_gone_when_launches_are_renewed(tmp_path, warnings) -> None:
    profiled.configure(compilation_poplar_options=_engine(tmp_path, all="true"))
    profiled.run()
    (folder,) = _written(tmp_path)
    folder.rename(tmp_path / "elsewhere")
    system.reset_ipu_configuration()
    assert len(warnings) == 1 and str(folder) in warnings[0]


def test_reports_may_be_text_only(tmp_path) -> None:
    profiled.configure(report_directory=str(tmp_path), use_poplar_text_report=True)
    profiled.run()
    (folder,) = _written(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"summary.txt", "framework.json"}


def test_files_that_are_too_large_are_left_out(tmp_path, monkeypatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    profiled.configure(report_directory=str(tmp_path), max_report_size=20_000)
    profiled.run()
    (folder,) = _written(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"summary.txt", "framework.json"}
    about = [text for text in warnings if "max_report_size" in text]
    assert len(about) == 3 and all("20000" in text for text in about)


def test_what_does_not_fit_has_its_report(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --ipu_model_tiles=4")
    flags._reset_for_tests()
    try:
        profiled.configure(compilation_poplar_options=_engine(tmp_path, all="true"))
        with pytest.raises(tf.errors.ResourceExhaustedError):
            profiled.run(1024)
    finally:
        system.reset_ipu_configuration()
        flags._reset_for_tests()
    (folder,) = _written(tmp_path)
    report = Report.load(folder)
    assert not report.insights["fits"] and report.executions == Executions()
    assert "does NOT fit" in (folder / "summary.txt").read_text()


def test_nothing_is_imported_or_planned_when_nothing_asks(run_python) -> None:
    code = """
import sys
from tests.support.reports import profiled
profiled.configure()
profiled.run()
loaded = [name for name in sys.modules if name.startswith("tensorflow_ipu.profiler")]
assert loaded == [], loaded
"""
    run_python(code, cwd=Path(__file__).parents[3])


def test_launches_are_renewed_at_end_of_process(run_python, tmp_path) -> None:
    code = """
from tests.support.reports import profiled
profiled.configure()
profiled.run(launches=2)
"""
    environment = {"POPLAR_ENGINE_OPTIONS": json.dumps(_engine(tmp_path, all="true"))}
    run_python(code, cwd=Path(__file__).parents[3], env=environment)
    (folder,) = _written(tmp_path)
    assert Report.load(folder).executions.launches == 2
