"""The pages of the reference that are no modules: arguments of `poprun`, and the pytest plugin."""

from __future__ import annotations

import argparse
import textwrap

from sphinx_ext.docstrings import restructured
from tensorflow_ipu import pytest_plugin as plugin
from tensorflow_ipu.distributed.launcher import main as launcher


def poprun() -> str:
    """Returns the page of the command that starts instances of a program."""
    parser = launcher.parser()
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    options = "".join(map(_option, shown))
    return (
        "poprun\n======\n\n.. program:: poprun\n\n"
        f"{parser.description} ``{parser.usage}``\n\nSee also: :doc:`/command_line`, "
        f":doc:`/distributed`.\n\n{options}::\n\n{textwrap.indent(parser.epilog or '', '    ')}\n"
    )


def _option(action: argparse.Action) -> str:
    """The description of an argument."""
    value = f" {action.metavar}" if action.metavar and action.nargs != 0 else ""
    names = ", ".join(f"{name}{value}" for name in action.option_strings) or action.metavar
    return f".. option:: {names}\n\n   {restructured(action.help or '')}\n\n"


def pytest_plugin() -> str:
    """Returns the page of the fixture and the option for tests."""
    parser = _Options()
    plugin.pytest_addoption(parser)  # type: ignore[arg-type]
    return (
        "pytest plugin\n=============\n\n.. program:: pytest\n\n"
        "pytest loads the plugin wherever tensorflow_ipu is installed.\n\n"
        "See also: :doc:`/command_line`.\n\n"
        f"{''.join(parser.pages)}"
        ".. py:currentmodule:: tensorflow_ipu.pytest_plugin\n\n"
        ".. autofunction:: tensorflow_ipu.pytest_plugin.ipu_budget\n"
    )


class _Options:
    """Takes the options of a plugin, as a parser of pytest does, and describes them."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def getgroup(self, name: str) -> _Options:
        """Returns itself: groups are not shown."""
        return self

    def addoption(self, name: str, **settings: str) -> None:
        """Adds the description of an option."""
        self.pages.append(f".. option:: {name}\n\n   {restructured(settings['help'])}\n\n")
