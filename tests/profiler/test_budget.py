"""Tests of budgets: verdicts, growth, and invalid files."""

import json

import pytest

from tensorflow_ipu.profiler import budget
from tensorflow_ipu.profiler.comparison import Difference, Snapshot

USED = Snapshot({"cycles": 1000, "worst tile bytes": 500}, {"dense": {"cycles": 800}})


def test_a_report_keeps_to_its_own_budget():
    assert budget.check(budget.of_snapshot(USED), USED).passed


@pytest.mark.parametrize("cycles, passes", [(990, True), (1000, True), (1050, True), (1051, False)])
def test_growth_within_the_tolerance_passes(cycles, passes):
    used = Snapshot({**USED.totals, "cycles": cycles}, USED.layers)
    assert budget.check(budget.of_snapshot(USED, tolerance=5), used).passed is passes


def test_says_what_grew_in_total_and_by_layer():
    used = Snapshot({"cycles": 1500, "worst tile bytes": 400}, {"dense": {"cycles": 1300}})
    verdict = budget.check(budget.of_snapshot(USED), used)
    assert verdict.exceeded == (
        Difference("", "cycles", 1000, 1500),
        Difference("dense", "cycles", 800, 1300),
    )
    text = budget.format_verdict(verdict)
    assert "over budget" in text and "dense" in text and "+62.5 %" in text


def test_what_the_budget_does_not_name_is_free():
    used = Snapshot({"cycles": 1, "worst tile bytes": 10**9}, {"new layer": {"cycles": 10**9}})
    assert budget.check(budget.Budget({"cycles": 1}, {}), used).passed


def test_a_layer_that_is_gone_is_no_growth():
    assert budget.check(budget.of_snapshot(USED), Snapshot(USED.totals, {})).passed


def test_a_limit_that_names_nothing_fails():
    verdict = budget.check(budget.Budget({"cylces": 1}, {}), USED)
    assert not verdict.passed
    assert "cylces" in budget.format_verdict(verdict)


def test_a_saved_budget_comes_back_as_it_was(tmp_path):
    saved = budget.of_snapshot(USED, tolerance=2.5)._replace(report="out/report.json")
    budget.save(saved, tmp_path / "budget.json")
    assert budget.load(tmp_path / "budget.json") == saved


@pytest.mark.parametrize(
    "content, message",
    [
        ("cycles: 3", "it is not JSON"),
        ("[]", r"budget should be object; received \[\]"),
        ('{"schema_version": 1}', "budget.limits is missing"),
        ('{"limits": {}}', "budget.schema_version is missing"),
        ('{"schema_version": 2, "limits": {}}', "schema_version should be one of 1; received 2"),
        (
            '{"schema_version": 1, "limits": {}, "limit": 3}',
            "a name in budget should be one of .*; received 'limit'",
        ),
        ('{"schema_version": 1, "limits": {"cycles": "3"}}', "should be number; received '3'"),
        (
            '{"schema_version": 1, "limits": {"cycles": -1}}',
            "limits.cycles should be a number from 0",
        ),
        ('{"schema_version": 1, "limits": {"cycles": true}}', "should be number; received True"),
        (
            '{"schema_version": 1, "limits": {}, "layers": {"a": 3}}',
            "layers.a should be object; received 3",
        ),
        ('{"schema_version": 1, "limits": {}, "tolerance_percent": "1"}', "should be number"),
        (
            '{"schema_version": 1, "limits": {}, "tolerance_percent": 1e999}',
            "should be a number from 0",
        ),
        (
            '{"schema_version": 1, "limits": {"cycles": 1%s}}' % ("0" * 400),
            "should be a number from 0 to 1e.300; received 1000",
        ),
        ('{"schema_version": 1, "limits": {}, "report": 5}', "report should be string"),
        (r'{"schema_version": 1, "limits": {}, "report": "\u0000"}', "without NUL"),
        ('{"schema_version": 1, "limits": {"cycles": NaN}}', "NaN is no number"),
        ("[" * 100_000, "is not a budget: it is not JSON"),
    ],
    ids=lambda value: None,
)
def test_what_is_no_budget(tmp_path, content, message):
    path = tmp_path / "budget.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        budget.load(path)


def test_the_file_is_json_with_a_version(tmp_path):
    budget.save(budget.of_snapshot(USED), tmp_path / "budget.json")
    data = json.loads((tmp_path / "budget.json").read_text())
    assert data["schema_version"] == 1 and data["limits"]["cycles"] == 1000


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "budget.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"budget\.json is not a budget"):
        budget.load(tmp_path / "budget.json")


@pytest.mark.parametrize("tolerance", [-5.0, float("nan"), float("inf")])
def test_no_budget_is_made_that_cannot_be_read(tolerance):
    with pytest.raises(ValueError, match="tolerance_percent"):
        budget.of_snapshot(USED, tolerance)


def test_limit_of_a_layer_that_names_nothing_fails():
    wrong = budget.Budget({}, {"dense": {"cycels": 1}, "gone": {"cycels": 1}})
    assert budget.check(wrong, USED).unknown == ("dense: cycels",)
