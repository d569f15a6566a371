"""Runs the programs of pages and writes what they print into them: `python docs/make_outputs.py`.

The Python blocks of a page run from top to bottom as one program, in a folder of their own. A block
of text right after one of them is what it prints. In a `console` block each line that begins with
`$ tensorflow-ipu` or `$ gc-info` is a command, and the lines below are what it prints. Pages can be
named (`python docs/make_outputs.py keras.md`). With `--check` nothing is written, and a page that
is out of date is an error.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path

from tensorflow_ipu.cli import gc_info
from tensorflow_ipu.cli import main as cli

PAGES = (
    "capacity.md",
    "command_line.md",
    "distributed.md",
    "estimators.md",
    "keras.md",
    "migration.md",
    "parallelism.md",
    "popart.md",
    "popxl.md",
    "pva.md",
    "reports.md",
    "serving.md",
)

_BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```\n(?:\n```text\n.*?```\n)?|```console\n(?P<console>.*?)```\n",
    re.DOTALL,
)
# What commands begin with, and what runs them.
_TOOLS = {"$ tensorflow-ipu ": cli.main, "$ gc-info ": gc_info.main}


def render(text: str) -> str:
    """Returns a page with what its programs print today.

    Args:
        text: The page.
    """
    # AutoGraph asks for the module and the source of each function, so there has to be a module,
    # and a file for each block.
    page_module = types.ModuleType("page")
    sys.modules[page_module.__name__] = page_module
    numbers = itertools.count(1)
    with tempfile.TemporaryDirectory() as folder:

        def with_output(block: re.Match[str]) -> str:
            if block["console"] is not None:
                return _with_commands(block["console"])
            code = block["code"]
            path = Path(folder) / f"block_{next(numbers)}.py"
            path.write_text(code, encoding="utf-8")
            program = compile(code, path, "exec")
            output = _printed(lambda: exec(program, page_module.__dict__))
            output = output.replace(f"{folder}{os.sep}", "")  # errors name the line of the block
            shown = f"\n```text\n{output}```\n" if output else ""
            return f"```python\n{code}```\n{shown}"

        before = os.getcwd()
        os.chdir(folder)
        try:
            return _BLOCK.sub(with_output, text)
        finally:
            os.chdir(before)


def _with_commands(console: str) -> str:
    """Returns a console block with what its commands print."""
    shown = ""
    for line in console.splitlines():
        prompt = next((prompt for prompt in _TOOLS if line.startswith(prompt)), None)
        if prompt is not None:
            arguments = shlex.split(line[len(prompt) :])
            function = _run if arguments[0] == "run" else _TOOLS[prompt]
            shown += f"{line}\n" + _printed(lambda: function(arguments))  # noqa: B023
    return f"```console\n{shown}```\n"


def _run(arguments: list[str]) -> None:
    """Runs a program with the tool, in a process of its own as it has the shims then."""
    process = subprocess.run(
        [sys.executable, "-m", "tensorflow_ipu.cli", *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    # The result comes first; of what Python and TensorFlow warn about, nothing is shown.
    at = process.stderr.find("tensorflow-ipu run: ")
    said = process.stderr[at:] if at >= 0 else ""
    print(process.stdout + said.replace(f"{os.getcwd()}{os.sep}", ""), end="")


def _printed(program: Callable[[], object]) -> str:
    """Runs a program; returns what it prints, without blanks at the ends of lines."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        program()
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def renew(page: Path, check: bool) -> None:
    """Renews a page, or checks it.

    Args:
        page: File of the page.
        check: Whether to write nothing.

    Raises:
        SystemExit: If the page is to be checked and is out of date.
    """
    written = page.read_text(encoding="utf-8")
    rendered = render(written)
    if not check:
        page.write_text(rendered, encoding="utf-8")
    elif rendered != written:
        print(*difflib.unified_diff(written.splitlines(), rendered.splitlines()), sep="\n")
        sys.exit(f"{page} is out of date: run python docs/make_outputs.py")


def main() -> None:
    """Renews the pages, or checks them. Each page is a program, with a process of its own."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    pages, check = arguments or PAGES, "--check" in sys.argv
    if len(pages) == 1:
        renew(Path(__file__).with_name(pages[0]), check)
        return
    flags = ["--check"] if check else []
    failed = [
        page for page in pages if subprocess.call([sys.executable, __file__, *flags, page]) != 0
    ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
