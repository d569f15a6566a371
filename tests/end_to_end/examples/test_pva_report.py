"""Tests that the example of `pva` reports the plan's figures, and fails beyond a limit."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans

PROGRAM = Path(__file__).parents[3] / "examples" / "pva_report.py"


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    """Runs the example; returns its exit code and its output."""
    monkeypatch.setattr(sys, "argv", [str(PROGRAM), *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    return int(ended.value.code), capsys.readouterr().out


@pytest.mark.parametrize(
    "limits, failures",
    [
        ((), []),
        (("--most-bytes", "1400", "--most-cycles", "1000"), []),
        (("--most-bytes", "1399"), ["tile 0 has 1,400 B, more than 1,399"]),
        (("--most-cycles", "999"), ["a launch takes 1,000 cycles, more than 999"]),
    ],
)
def test_a_report_is_shown_and_checked(tmp_path, monkeypatch, capsys, limits, failures) -> None:
    plan = plans.plan()
    Report.from_plan(plan).save(tmp_path / "profile.pop")
    code, text = run(monkeypatch, capsys, str(tmp_path / "profile.pop"), *limits)
    assert code == bool(failures)
    assert [line[8:] for line in text.splitlines() if line.startswith("FAILED: ")] == failures
    assert "| dense/MatMul | 300 |" in text and "200 of them exchange" in text
    assert f"| variable | {plan.memory[0].total:,} |" in text


def test_a_model_is_trained_and_its_report_checked(monkeypatch, capsys) -> None:
    code, text = run(monkeypatch, capsys, "--most-cycles", "10")
    assert code == 1 and "a launch takes" in text and "| repeat/while/" in text
