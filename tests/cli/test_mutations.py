"""Damaged reports: every command prints a result, or the fault in one line."""

from __future__ import annotations

import random

from tests.cli import mutations

# More: `python -m tests.cli.mutations 5000`.
CASES = 400


def test_commands_refuse_damaged_reports_in_one_line() -> None:
    codes: set[int] = set()
    commands: set[str] = set()
    with mutations.tool() as apply:
        for case in mutations.cases(CASES):
            outcome = apply(case)
            assert not outcome.problem, f"case {case.number}, {case.command} of {case.report}"
            codes.add(outcome.code)
            commands.add(case.command)
    assert codes == {0, 1, 2} and commands == set(mutations.COMMANDS)


def test_cases_are_the_same_each_time() -> None:
    (first,), (again,) = (list(mutations.cases(1, first=7)) for _ in range(2))
    assert first.command == again.command and len(first.content) == len(again.content)


def test_a_command_that_raises_is_a_problem(monkeypatch) -> None:
    monkeypatch.setattr(mutations, "main", lambda _: 1 / 0)
    assert "ZeroDivisionError" in mutations.run(["report"]).problem
    assert mutations.Outcome(2, "one line\n").problem == ""
    assert mutations.Outcome(2, "two\nlines\n").problem
    assert mutations.Outcome(2, "tensorflow-ipu report: a fault of tensorflow_ipu\n").problem


def test_what_is_damaged_is_another_report() -> None:
    whole = mutations.reports()["loop"]
    changed = [mutations.damaged(whole, random.Random(number)) != whole for number in range(50)]
    assert sum(changed) > 40
