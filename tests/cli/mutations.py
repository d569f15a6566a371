"""Damaged reports, and the command line tool's results for them.

`python -m tests.cli.mutations 5000` tries that many, and prints those that are not refused in one
line. Cases are numbered: the same number is the same damage of the same report.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import random
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_ipu.cli.main import main
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.schedule import PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tests.support.planner import workloads

# Within which a command on a small report has ended, on any machine.
_SECONDS = 30

#: What takes the place of a value, whatever it was.
NASTY = (
    *(None, True, False, "", "x", "\0", "\ud800", "NaN", [], {}, [None], [[]], {"a": {}}),
    *(-1, 0, 1, 2, 7, 1.5, -0.5, 1e300, -1e300, math.nan, math.inf, -math.inf),
    *(2**31, 2**63, -(2**63), 2**64, 10**30, 10**400),
)


def reports() -> dict[str, bytes]:
    """Returns small reports of all kinds of programs by name, as files have them."""
    chip = Settings().chip.with_tiles(8)
    return {
        "training": _report(workloads.training_step(64, 8, 2), Settings(chip=chip)),
        "loop": _report(workloads.loop(64, 3), Settings(chip=chip, replicas=2)),
        "pipeline": _report(
            workloads.pipeline(2, PipelineSchedule.Interleaved, width=16), Settings(chip=chip)
        ),
    }


def _report(workload: Workload, settings: Settings) -> bytes:
    report = Report.from_plan(planning.plan(workload, settings), {"a": 1}, Executions(2, 0.5))
    return report.to_json().encode()


#: Commands by name: arguments in which `FILE` is the damaged report and `WHOLE` one that is not.
COMMANDS: dict[str, Sequence[str]] = {
    "text": ("report", "FILE"),
    "html": ("report", "FILE", "--format", "html"),
    "trace": ("report", "FILE", "--format", "trace"),
    "json": ("report", "FILE", "--format", "json"),
    "diff": ("diff", "WHOLE", "FILE"),
    "check": ("check", "BUDGET", "--report", "FILE"),
    "whatif": ("whatif", "FILE", "--tiles", "4", "--replicas", "1", "2", "--batch", "4"),
    "stages": ("whatif", "FILE", "--stages", "2", "--count", "4", "--recompute", "yes"),
    "split": ("split", "FILE", "--stages", "2", "--count", "4"),
}


_KINDS = (
    *("alike", "alike", "alike", "alike", "alike", "delete", "replace", "replace"),
    *("nest", "swap", "repeat", "add", "add"),
)
# Of commands that plan a program again: what is wrong with the types of an op is found there.
_OF_PLANNING = ("tensorflow-ipu whatif", "tensorflow-ipu split")


def damaged(whole: bytes, draw: random.Random) -> bytes:
    """Returns a report with one to three things wrong."""
    if draw.random() < 0.1:
        return _damaged_bytes(whole, draw)
    data = json.loads(whole)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        change(data, draw)
    # What Python writes and reads besides JSON: NaN, and numbers of any length.
    return json.dumps(data).encode()


def _damaged_bytes(whole: bytes, draw: random.Random) -> bytes:
    """Cuts a file off, or changes bytes of it."""
    if draw.random() < 0.5:
        return whole[: draw.randrange(len(whole))]
    content = bytearray(whole)
    for _ in range(draw.randrange(1, 5)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content)


def change(data: Any, draw: random.Random) -> None:
    """Changes something in the data of a report."""
    holder, key = _place(data, draw)
    value = holder[key]
    kind = draw.choice(_KINDS)
    if kind == "alike":
        _exchange(data, draw)
    elif kind == "delete":
        del holder[key]
    elif kind == "replace":
        holder[key] = copy.deepcopy(draw.choice(NASTY))
    elif kind == "nest":
        holder[key] = draw.choice(([value], {"value": value}, [value, value], str(value)))
    elif kind == "swap":
        other, place = _place(data, draw)
        holder[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(value)
    elif kind == "repeat" and isinstance(value, list):
        holder[key] = value * draw.choice((0, 2, 3))
    elif isinstance(value, dict):
        value[draw.choice(("", "x", "kind", "version"))] = draw.choice(NASTY)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[key] = value + draw.choice((-1, 1, 0.5, 1000))
    else:
        holder[key] = None


def _exchange(data: Any, draw: random.Random) -> None:
    """Replaces a value by another of the same type, so that only its meaning is wrong."""
    for _ in range(200):
        (holder, key), (other, place) = _place(data, draw), _place(data, draw)
        value, wanted = holder[key], other[place]
        if type(value) is type(wanted) and value != wanted and not isinstance(value, dict):
            holder[key] = copy.deepcopy(wanted)
            return


def _place(data: Any, draw: random.Random) -> tuple[Any, Any]:
    """Chooses a value anywhere in the data; returns its container and its key.

    Half of them are in the tables of the program, which is what commands compute with.
    """
    while True:
        holder = data
        if isinstance(data, dict) and draw.random() < 0.5:
            tables = data.get("workload", data)
            if isinstance(tables, dict) and tables:
                holder = tables.get(draw.choice(sorted(tables)), tables)
        if not isinstance(holder, (dict, list)) or not holder:
            holder = data
        while True:
            key = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            inner = holder[key]
            if key == "fields" and draw.random() < 0.8:
                break  # names of columns are many, and all alike
            if not isinstance(inner, (dict, list)) or not inner or draw.random() < 0.15:
                return holder, key
            holder = inner


class Outcome(NamedTuple):
    """The result of a command.

    Args:
        code: its exit code, -1 if it raised.
        error: what it wrote as an error, or the traceback.
    """

    code: int
    error: str

    @property
    def problem(self) -> str:
        """The fault of a result; empty for a result, and for one line with exit code 2."""
        if self.code in (0, 1):
            return f"exit code {self.code} with {self.error!r}" if self.error else ""
        one_line = self.error.count("\n") == 1 and len(self.error) < 800
        planned = self.error.startswith(_OF_PLANNING)
        if self.code == 2 and one_line and (not self.unexpected or planned):
            return ""
        return f"exit code {self.code}: {self.error}"

    @property
    def unexpected(self) -> bool:
        """Whether the file passed all checks, and something else went wrong."""
        return "a fault of tensorflow_ipu" in self.error


def run(arguments: Sequence[str]) -> Outcome:
    """Runs a command in this process."""
    errors = io.StringIO()
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(_SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            code = main(arguments)
    except (Exception, _OutOfTimeError):
        return Outcome(-1, traceback.format_exc())
    finally:
        signal.alarm(0)
    return Outcome(code, errors.getvalue())


class _OutOfTimeError(BaseException):
    """A command takes far longer than any that has something to do."""


def _out_of_time(*_: object) -> None:
    raise _OutOfTimeError


class Case(NamedTuple):
    """A damaged report and a command.

    Args:
        number: of the case.
        report: name of what was damaged.
        command: name of the command.
        content: of the file.
    """

    number: int
    report: str
    command: str
    content: bytes


def cases(count: int, first: int = 0) -> Iterator[Case]:
    """Yields cases by their number."""
    whole = reports()
    for number in range(first, first + count):
        draw = random.Random(number)
        report, command = draw.choice(list(whole)), draw.choice(list(COMMANDS))
        yield Case(number, report, command, damaged(whole[report], draw))


@contextlib.contextmanager
def tool() -> Iterator[Callable[[Case], Outcome]]:
    """Yields a function that runs a case in a folder of its own."""
    whole = reports()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        budget = str(folder / "budget.json")
        for report, content in whole.items():
            (folder / f"{report}.json").write_bytes(content)
        main(["check", budget, "--report", str(folder / "training.json"), "--update"])

        def apply(case: Case) -> Outcome:
            path = folder / "report.json"
            path.write_bytes(case.content)
            names = {
                "FILE": str(path),
                "WHOLE": str(folder / f"{case.report}.json"),
                "BUDGET": budget,
            }
            return run([names.get(word, word) for word in COMMANDS[case.command]])

        yield apply


def _main(count: int, first: int = 0) -> int:
    codes: Counter[int] = Counter()
    unexpected: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    with tool() as apply:
        for case in cases(count, first):
            outcome = apply(case)
            codes[outcome.code] += 1
            if outcome.unexpected:
                unexpected[" ".join(outcome.error.split()[1:5])] += 1
            if outcome.problem:
                lines = outcome.problem.strip().splitlines()
                place = next((line for line in reversed(lines) if "File " in line), "")
                problems[f"{case.command}: {lines[-1][:150]}  {place.strip()}"] += 1
                print(f"case {case.number} ({case.report}, {case.command}): {lines[-1][:200]}")
    print(f"{count} cases, exit codes {dict(codes)}, {sum(problems.values())} problems")
    print(f"not found by checks: {dict(unexpected)}")
    for problem, times in problems.most_common():
        print(f"{times:4d} {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(_main(*map(int, sys.argv[1:])))
