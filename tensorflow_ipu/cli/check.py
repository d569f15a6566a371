"""`tensorflow-ipu check BUDGET`: compares a program with its budget, in CI."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tensorflow_ipu.cli import inputs
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.profiler import budget as budget_lib
from tensorflow_ipu.profiler import comparison

_EXAMPLES = (
    (
        "tensorflow-ipu check budget.json --report before.json --update --tolerance 2",
        "makes a budget, with 2 % to spare",
    ),
    ("tensorflow-ipu check budget.json --report after.json", "fails with what grew"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Compares a report with a budget: a JSON file of limits, made with --update."
    )
    parser.examples = _EXAMPLES
    parser.add_argument("budget", metavar="BUDGET", help="file of the budget")
    parser.add_argument(
        "--report", metavar="FILE", help="report, or its folder; else the one that BUDGET names"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--update", action="store_true", help="make BUDGET what the report uses")
    parser.add_argument(
        "--tolerance", type=float, metavar="PERCENT", help="with --update: how much more may pass"
    )


def run(options: argparse.Namespace) -> int:
    """Checks or renews the budget."""
    if options.update:
        return _update(options)
    if options.tolerance is not None:
        raise ValueError("--tolerance belongs to --update: a check takes it from the budget.")
    budget = budget_lib.load(options.budget)
    used = comparison.of_report(inputs.load(_report(options, budget.report)))
    verdict = budget_lib.check(budget, used)
    print(_verdict_json(verdict) if options.json else budget_lib.format_verdict(verdict))
    return 0 if verdict.passed else 1


def _update(options: argparse.Namespace) -> int:
    """Writes the budget whose limits are the report's numbers."""
    known = budget_lib.load(options.budget) if Path(options.budget).exists() else None
    tolerance = options.tolerance
    if tolerance is None:
        tolerance = known.tolerance if known else 0.0
    named = known.report if known else ""
    report = inputs.load(_report(options, named))
    budget = budget_lib.of_snapshot(comparison.of_report(report), tolerance)
    budget_lib.save(budget._replace(report=named), options.budget)
    print(f"wrote {options.budget}: {len(budget.limits)} limits, {len(budget.layers)} layers")
    return 0


def _report(options: argparse.Namespace, named: str) -> str:
    """Returns the path of the report; the budget's own is relative to its folder."""
    if options.report:
        return str(options.report)
    if not named:
        raise ValueError(
            f"{options.budget} names no report: give one with --report FILE, or add "
            '"report": "<file>" to the budget.'
        )
    return str(Path(options.budget).parent / named)


def _verdict_json(verdict: budget_lib.Verdict) -> str:
    return json.dumps(
        {
            "passed": verdict.passed,
            "exceeded": comparison.changes_to_dict(verdict.exceeded),
            "unknown": list(verdict.unknown),
        },
        indent=2,
    )
