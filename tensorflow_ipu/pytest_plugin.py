"""The pytest plugin: the fixture `ipu_budget`, and the option that renews budgets.

pytest loads it wherever tensorflow_ipu is installed, so nothing is imported before a test asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

_UPDATE = "--update-ipu-budgets"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that writes budgets instead of checking them."""
    group = parser.getgroup("tensorflow_ipu")
    group.addoption(
        _UPDATE,
        action="store_true",
        help="make the budgets of tests that use `ipu_budget` what their programs use today",
    )


@pytest.fixture
def ipu_budget(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Checks the memory and cycles of a test's IPU programs against a budget in a file.

    Use it after the programs ran: `ipu_budget("digits.json")`. The file is relative to the test's
    folder. `pytest --update-ipu-budgets` writes it. `tolerance` (allowed excess in percent)
    overrides the file's. Of several programs the one with the most cycles is checked, unless
    `program` names another.
    """
    from tensorflow_ipu import profiler

    folder = request.path.parent
    update = request.config.getoption(_UPDATE)
    with profiler.profile() as profile:

        def check(budget: str, program: str | None = None, tolerance: float | None = None) -> None:
            report = _chosen(profile.reports, program)
            _check(report, folder / budget, update, tolerance)

        yield check


def _chosen(reports: tuple[Report, ...], program: str | None) -> Report:
    """Returns the report of the program to check."""
    names = [report.plan.workload.name for report in reports]
    meant = [r for r in reports if program is None or program in r.plan.workload.name]
    if not meant:
        what = (
            "an IPU program" if program is None else f"an IPU program with {program!r} in its name"
        )
        pytest.fail(f"ipu_budget expected {what} to run in this test before it; got {names}.")
    return max(meant, key=lambda report: report.plan.timeline.cycles)


def _check(report: Report, path: Path, update: bool, tolerance: float | None) -> None:
    """Fails the test if the report does not keep to the budget, or writes the budget."""
    from tensorflow_ipu.profiler import budget, comparison
    from tensorflow_ipu.util import private_files

    used = comparison.of_report(report)
    if not update and not path.exists():
        pytest.fail(f"There is no budget {path}: run `pytest {_UPDATE}` to make it.")
    known = budget.load(path) if path.exists() else budget.Budget({}, {})
    full = budget.of_snapshot(used, known.tolerance if tolerance is None else tolerance)
    if update:
        private_files.make_folder(path.parent)
        budget.save(full._replace(report=known.report), path)
        return
    verdict = budget.check(known._replace(tolerance=full.tolerance), used)
    if not verdict.passed:
        pytest.fail(f"{path}: {budget.format_verdict(verdict)}", pytrace=False)
