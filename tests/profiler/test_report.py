"""Reports: to a file and back, errors of files that are none, tables and insights."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tests.support.planner import plans

PLANS = {
    "replicas": plans.plan(4),
    "pipeline": plans.pipeline_plan(),
    "oom": plans.plan(scale=1000),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


def same(first: object, second: object) -> bool:
    """Returns whether values are equal, also arrays in containers."""
    if isinstance(first, np.ndarray):
        return isinstance(second, np.ndarray) and np.array_equal(first, second)
    if dataclasses.is_dataclass(first) and type(first) is type(second):
        names = [field.name for field in dataclasses.fields(first)]
        return all(same(getattr(first, n), getattr(second, n)) for n in names)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))  # type: ignore[arg-type]
    return bool(first == second)


@each_plan
def test_a_saved_report_comes_back_as_it_was(plan: Plan, tmp_path) -> None:
    report = Report.from_plan(plan, {"engine": {"a": "b"}}, Executions(3, 1.5))
    report.save(tmp_path / "report.json")
    for loaded in (Report.load(tmp_path), Report.load(str(tmp_path / "report.json"))):
        assert same(loaded.plan, plan)
        assert loaded == dataclasses.replace(report, plan=loaded.plan)
        assert loaded.insights == json.loads(json.dumps(report.insights))
        assert loaded.layers() == report.layers() and loaded.ops() == report.ops()
        assert str(loaded) == str(report)


@each_plan
def test_numbers_of_file_are_those_of_plan(plan: Plan) -> None:
    data = json.loads(Report.from_plan(plan).to_json())
    assert data["format"] == "tensorflow_ipu report"
    assert data["schema_version"] == 1
    assert data["target"]["replicas"] == plan.settings.replicas
    assert data["target"]["ipus"] == plan.settings.replicas * plan.workload.ipus
    assert data["plan"]["timeline"]["cycles"] == plan.timeline.cycles
    for stored, memory in zip(data["plan"]["memory"], plan.memory):
        assert stored["peak"] == memory.peak.tolist()
        assert stored["worst_bytes"] == max(memory.peak)
        assert sum(sum(c["tiles"]) for c in stored["categories"]) == memory.peak.sum()
        assert stored["fits"] == (max(memory.peak) <= plans.CAPACITY)
    layers = data["layers"]
    assert sum(layer["variable_bytes"] for layer in layers) == 40 * 50 * 4
    assert sum(layer["flops"] for layer in layers) == 64000 * 3


def test_layers_and_ops_add_up_cycles() -> None:
    report = Report.from_plan(plans.plan())
    dense, rest = report.layers()
    assert (dense.layer, dense.ops, dense.label) == ("dense", 2, "modelled")
    # Its input comes from the host, which is a transfer of its forward pass.
    moved = sum(row.cycles for row in report.operations() if row.op is None)
    assert (dense.forward_cycles - moved, dense.backward_cycles, dense.update_cycles) == (
        420,
        330,
        0,
    )
    assert dense.activation_bytes == 16 * 50 * 4  # the gradient is no activation
    assert (rest.layer, rest.update_cycles, rest.variable_bytes) == ("(no layer)", 100, 0)
    assert [row.name for row in report.ops()] == [
        "dense/MatMul",
        "gradients/dense/MatMul",
        "update",
    ]
    assert report.ops()[1].cycles == 2 * (100 + 50 + 15)
    layers, operations = report.layers(), report.operations()
    assert sum(row.cycles for row in layers) == sum(row.cycles for row in operations)


def test_insights_name_the_worst_tile_and_largest_variables() -> None:
    found = Report.from_plan(plans.plan()).insights
    assert found["fits"] and found["worst_tile"] == 0 and found["worst_bytes"] == 1400
    assert found["largest_variables"][0]["bytes"] == 8000
    assert found["bubble_share"] is None and not found["remedies"]
    assert found["share_by_label"] == {"exact": 0, "modelled": 0.67, "assumed": 0.33}
    assert found["host_cycles"] == 2 * 50 + 2 * 10


def test_bubble_of_a_pipeline_is_its_idle_time() -> None:
    plan = plans.pipeline_plan()
    timing = plan.timeline.schedule
    assert timing is not None
    idle = 1 - sum(timing.busy) / (2 * timing.total)
    assert Report.from_plan(plan).insights["bubble_share"] == pytest.approx(idle)


@pytest.mark.parametrize("runs, bound", [(2, False), (20, True)])
def test_bound_by_the_host(runs: int, bound: bool) -> None:
    plan = plans.plan()
    transfer = plan.timeline.transfers[0]._replace(runs=runs)
    timeline = dataclasses.replace(plan.timeline, transfers=(transfer,))
    found = Report.from_plan(dataclasses.replace(plan, timeline=timeline)).insights
    # The IPU works 850 of the 1000 cycles; the transfer takes 50 cycles each time.
    assert found["io_bound"] is bound


def _changed(path: tuple[str, ...], value: object) -> str:
    data = json.loads(Report.from_plan(plans.plan()).to_json())
    node = data
    for name in path[:-1]:
        node = node[name]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    "text, message",
    [
        ("IPU", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", "Not a report"),
        ('{"format": "other"}', "expected a JSON object with"),
        (_changed(("schema_version",), 2), "schema version 2; this release reads 1"),
        (_changed(("schema_version",), "1"), "schema version '1'"),
        (_changed(("target",), None), "report.target is missing"),
        (_changed(("target", "clock"), "fast"), "report.target.clock should be number"),
        (
            _changed(("executions", "launches"), -1),
            "a number from 0 to 1000000000000000; received -1",
        ),
        (_changed(("executions", "launches"), True), "should be integer; received True"),
        (_changed(("plan", "timeline", "label"), "sure"), "one of exact, modelled, assumed"),
        (_changed(("settings", "ordering"), ""), "one of CHOOSE_BEST, CLUSTERING"),
        (
            _changed(("more",), [{"a": 1}]).replace('"a": 1', '"a": 1e999'),
            "more[0].a should be a num",
        ),
        (_changed(("plan", "timeline", "segments", "start"), [0]), "not of one length"),
        (_changed(("plan", "timeline", "ops", "cost"), [9, 9, 9]), "Not a whole report"),
        (_changed(("insights", "utilisation"), None), "report.insights.utilisation is missing"),
        (_changed(("insights", "range_per_second"), [1]), "range_per_second"),
        (
            _changed(("insights", "range_per_second"), "null").replace('"null"', "null"),
            "one of them is null",
        ),
    ],
    ids=range(18),
)
def test_files_that_are_no_reports(text: str, message: str, tmp_path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="report") as error:
        Report.load(path)
    assert message in str(error.value) and str(path) in str(error.value)


def test_reports_are_read_without_tensorflow(tmp_path) -> None:
    path = tmp_path / "report.json"
    Report.from_plan(plans.plan()).save(path)
    code = (
        "import sys; from tensorflow_ipu.profiler.report import Report\n"
        f"print(Report.load({str(path)!r})); assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_labels_are_the_worst_of_parts() -> None:
    plan = plans.plan()
    ops = tuple(dataclasses.replace(op, label=Label.ASSUMED) for op in plan.workload.ops)
    workload = dataclasses.replace(plan.workload, ops=ops)
    rows = Report.from_plan(dataclasses.replace(plan, workload=workload)).ops()
    assert {row.label for row in rows} == {"assumed"}
