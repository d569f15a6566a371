"""Tables of the text report."""

from __future__ import annotations

import pytest

from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.profiler.export import text_report
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tests.support.planner.workloads import pipeline, training_step


@pytest.mark.parametrize("make", [training_step, pipeline])
def test_operations_are_shown_with_what_bounds_them(make):
    report = Report.from_plan(plan(make(), Settings()))
    lines = text_report.top_operations(report)
    bounds, types, operations = "\n".join(lines).split("\n\n")
    first = report.operations()[0]
    for text in (f"{round(first.cycles):,}", first.bound, first.partition, first.name):
        assert text in operations.splitlines()[1]
    heading, *rows = operations.splitlines()
    assert heading.split()[:2] == ["cycles", "share"] and "of roof" in heading
    assert len(rows) == text_report.TOP
    assert "MatMul" in types
    total = sum(
        int(row.split("  ")[1].strip().replace(",", ""))
        for row in _cells(bounds)
        if row.split("  ")[1].strip()[:1].isdigit()
    )
    assert total == pytest.approx(sum(row.cycles for row in report.operations()), abs=8)


def _cells(text: str) -> list[str]:
    """Rows of a table with exactly two blanks between cells."""
    return ["  ".join(part for part in row.split("  ") if part) for row in text.splitlines()[1:]]


def test_a_program_without_ops_has_no_table():
    empty = Report.from_plan(plan(Workload("none", (), (), (), (), 1), Settings()))
    assert text_report.top_operations(empty) == []


@pytest.mark.parametrize("ops", [0, 40])
def test_report_says_what_replicas_shared(ops):
    executions = Executions(1, 1.0, ops // 2, ops, 3000, 4000, 500)
    text = text_report.text(Report.from_plan(plan(training_step(), Settings()), {}, executions))
    line = (
        "Uniform: 20 of 40 ops, which the host ran once for all replicas, and 3,000 of 4,000 B of "
        "variables, which it held once; 500 B of copies of the others"
    )
    assert (line in " ".join(text.split())) == (ops > 0)
