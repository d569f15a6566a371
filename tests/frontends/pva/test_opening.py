"""`openReport`: accepted files, and errors for others."""

from __future__ import annotations

import dataclasses
import shutil

import pva
import pytest

import tensorflow_ipu
from tensorflow_ipu.profiler import report_directory
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.profiler.report_directory import ReportOptions
from tests.support.planner import plans

SAVED = Report.from_plan(plans.plan(4), executions=Executions(3, 1.0))


@pytest.fixture
def folder(tmp_path):
    report_directory.write(SAVED, tmp_path, ReportOptions(str(tmp_path)))
    return tmp_path


@pytest.mark.parametrize("name", ["profile.pop", "report.json", "."])
def test_files_and_directories_of_reports_are_read(folder, name) -> None:
    for path in (folder / name, str(folder / name)):
        report = pva.openReport(path)
        assert report.compilation.target.numReplicas == 4
        assert repr(report).startswith("Report(") and "launches=3" in repr(report)


def test_the_name_of_debug_information_is_taken(folder) -> None:
    report = pva.openReport(str(folder / "profile.pop"), str(folder / "debug.cbor"))
    same = pva.openReport(
        profileFilename=str(folder / "profile.pop"), debugInfoFilename=str(folder / "debug.cbor")
    )
    assert len(report.compilation.tiles) == len(same.compilation.tiles) == plans.TILES


def test_missing_files_are_an_os_error(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        pva.openReport(str(tmp_path / "profile.pop"))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"SQLite format 3\0" + bytes(100), r"Poplar wrote.*autoReport\.all"),
        (b"not a report", "report.json or profile.pop"),
        (b"{}", "profile.pop"),
    ],
)
def test_other_files_fail_with_advice(tmp_path, content, message) -> None:
    path = tmp_path / "profile.pop"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        pva.openReport(str(path))


def test_versions_say_that_it_is_a_model(folder) -> None:
    report = pva.openReport(folder)
    version = report.poplarVersion
    assert tensorflow_ipu.__version__ in version.string and "model" in version.string
    numbers = f"{version.major}.{version.minor}.{version.point}"
    assert tensorflow_ipu.__version__.startswith(numbers)
    with pytest.raises(pva.NotModelledError, match="Poplar"):
        _ = version.packageHash
    assert (report.version.major, report.version.isUnstableFormat) == (1, False)


@pytest.mark.parametrize(
    "options, compute, exchange",
    [
        ({}, "Unknown", "Unknown"),
        ({"debug.computeInstrumentationLevel": "tile"}, "Tile", "Unknown"),
        ({"debug.computeInstrumentationLevel": "ipu"}, "Ipu", "Unknown"),
        ({"debug.instrument": "false"}, "Off", "Off"),
    ],
)
def test_instrumentation_is_what_the_options_asked_for(tmp_path, options, compute, exchange):
    Report.from_plan(plans.plan(), {"engine": options}).save(tmp_path / "report.json")
    settings = pva.openReport(tmp_path).instrumentationSettings
    levels = pva.InstrumentationSettings.ComputeInstrumentationLevel
    assert settings.compute is levels[compute]
    assert settings.externalExchange.name == exchange
    assert pva.InstrumentationSettings.Vertex.value == 1
    assert repr(levels.Device) == "<ComputeInstrumentationLevel.Device: 4>"


def test_lists_show_as_many_elements_as_is_said(folder) -> None:
    report = pva.openReport(folder)
    tiles = report.compilation.tiles
    report.listPrintLength(2)
    assert repr(tiles).count("CompilationTile(") == 2 and "8 in all" in repr(tiles)
    report.listPrintLength(8)
    assert repr(tiles).count("CompilationTile(") == 8 and "in all" not in repr(tiles)
    with pytest.raises(ValueError, match="received -1"):
        report.listPrintLength(-1)


def test_reports_are_read_without_tensorflow(run_python, folder) -> None:
    shutil.copy(folder / "profile.pop", folder / "copy.pop")
    code = """
import sys
import pva
report = pva.openReport("copy.pop")
assert report.execution.steps and "tensorflow" not in sys.modules
"""
    run_python(code, cwd=folder)


def test_a_report_is_one_of_the_profiler_too(folder) -> None:
    report = pva.openReport(folder)
    assert isinstance(report, Report) and str(report) == str(SAVED)
    assert report.to_dict() == SAVED.to_dict()
    assert len(report.execution.runs) == 1
    options = {"engine": {"autoReport.executionProfileProgramRunCount": "5"}}
    more = dataclasses.replace(report, options=options).with_executions(Executions(5, 1.0))
    assert len(more.execution.runs) == 5
    assert len(more.with_executions(Executions(2, 1.0)).execution.runs) == 2
