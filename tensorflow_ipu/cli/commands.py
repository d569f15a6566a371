"""The table of commands of `tensorflow-ipu`; a command is loaded when it is used."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class Command(NamedTuple):
    """One command.

    Attributes:
        name: Its name, and its module's.
        summary: Its effect, in one line.
    """

    name: str
    summary: str

    def sentence(self) -> str:
        """Returns the summary as a sentence, for a help without more text."""
        return f"{self.summary[0].upper()}{self.summary[1:]}."

    def load(self) -> Any:
        """Returns its module, which has `add` for its arguments, and `run`."""
        return importlib.import_module(f"{__package__}.{self.name}")


COMMANDS = (
    Command("doctor", "check that programs can run here, and say what to mend"),
    Command("devices", "list the IPUs of the simulated machine"),
    Command("report", "show a report, or write it in another form"),
    Command("diff", "compare reports by speed, memory and layer"),
    Command("whatif", "plan for another chip, batch, number of replicas ... without running"),
    Command("split", "find pipeline stages of equal cost"),
    Command("remedies", "find the fastest configuration that fits, and what to change for it"),
    Command("check", "compare a report with a budget; exits with 1 and prints what grew"),
    Command("run", "run a program for TensorFlow 1.15 or 2.6, PopXL or PopART as it stands"),
    Command("passes", "print programs for the IPU after each pass of the compiler"),
    Command(
        "migrate",
        "what to change in an older program; exits with 1 if anything",
    ),
    Command("completion", "print a script with which bash or zsh completes command lines"),
)


def named(name: str) -> Command | None:
    """Returns the command of a name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)
