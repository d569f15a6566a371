"""Damaged reports are refused, or their rest can be shown and saved."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies

from tensorflow_ipu.profiler.export import chrome_trace, html_page
from tensorflow_ipu.profiler.report import Report
from tests.fuzz import support
from tests.support.planner import plans

REPORTS = {
    "one IPU": Report.from_plan(plans.plan()),
    "replicas": Report.from_plan(plans.plan(4), {"engine": {"a": "b"}}),
    "out of memory": Report.from_plan(plans.plan(scale=1000)),
    "pipeline": Report.from_plan(plans.pipeline_plan()),
}
REMOVED = object()


class Damage(NamedTuple):
    """One change: the value at `place` among all values of the report, and its replacement."""

    place: int
    replacement: Any


_scalars = strategies.one_of(
    strategies.none(),
    strategies.booleans(),
    strategies.integers(-3, 20),
    strategies.sampled_from([-(2**63), 2**31, 2**53, 2**64, 10**30]),
    strategies.floats(),
    strategies.text(max_size=5),
    strategies.sampled_from(["exact", "modelled", "float32", "compute", "recompute", "dense"]),
)
_replacements = strategies.one_of(
    strategies.just(REMOVED),
    _scalars,
    strategies.lists(_scalars, max_size=3),
    strategies.dictionaries(strategies.text(max_size=3), _scalars, max_size=2),
)
CASES = strategies.tuples(
    strategies.sampled_from(sorted(REPORTS)),
    strategies.lists(
        strategies.builds(Damage, strategies.integers(0, 2**16), _replacements),
        min_size=1,
        max_size=3,
    ),
)


@functools.cache
def _saved(name: str) -> dict[str, Any]:
    return json.loads(REPORTS[name].to_json())


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Returns the container and the key of each value inside a value."""
    items: list[tuple[Any, Any]] = []
    if isinstance(node, dict):
        items = list(node.items())
    elif isinstance(node, list):
        items = list(enumerate(node))
    found = [(node, key) for key, _ in items]
    for _, value in items:
        found += _places(value)
    return found


def _damaged(name: str, damages: list[Damage]) -> dict[str, Any]:
    data = copy.deepcopy(_saved(name))
    for damage in damages:
        places = _places(data)
        container, key = places[damage.place % len(places)]
        if damage.replacement is REMOVED:
            del container[key]
        else:
            container[key] = copy.deepcopy(damage.replacement)
    return data


def _check(case: tuple[str, list[Damage]]) -> None:
    try:
        report = Report.from_dict(_damaged(*case))
    except ValueError as error:
        assert "eport" in str(error)
        return
    assert str(report)
    html_page.report_page(report)
    chrome_trace.to_json(report)
    again = Report.from_dict(json.loads(report.to_json()))
    assert str(again) == str(report)


def test_damaged_reports_are_refused_or_shown(request: pytest.FixtureRequest) -> None:
    support.run(request, "reports", CASES, _check)
