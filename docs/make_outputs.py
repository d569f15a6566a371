"""Runs the programs of pages and writes their output into them: `python docs/make_outputs.py`.

The Python blocks of a page run from top to bottom as one program, in a folder of their own. A block
of text right after one of them is what it prints. In a `console` block each line that begins with
`$ tensorflow-ipu` or `$ gc-info` is a command, and the lines below are what it prints. A Python
block whose first line is a name, such as `# digits.py`, is not run: it is a file, which all pages
of its folder have. Pages can be named (`python docs/make_outputs.py keras.md`), and folders of
pages (`tutorial`). With `--check` nothing is written, and a page that is out of date is an error.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from pathlib import Path

from tensorflow_ipu.cli import devices
from tensorflow_ipu.cli import main as cli

PAGES = (
    "capacity.md",
    "command_line.md",
    "concepts",
    "distributed.md",
    "errors.md",
    "estimators.md",
    "guides",
    "keras.md",
    "migration.md",
    "migration_popart.md",
    "migration_popxl.md",
    "parallelism.md",
    "popart.md",
    "popxl.md",
    "pva.md",
    "reports.md",
    "serving.md",
    "tutorial",
)

_BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```\n(?:\n```text\n.*?```\n)?|```console\n(?P<console>.*?)```\n",
    re.DOTALL,
)
_FILE = re.compile(r"```python\n# (?P<name>\w+\.py)\n(?P<code>.*?)```\n", re.DOTALL)
# What commands begin with, and what runs them.
_TOOLS = {"$ tensorflow-ipu ": cli.main, "$ gc-info ": devices.gc_info}


def render(text: str, files: dict[str, str]) -> str:
    """Returns a page with the current output of its programs.

    Args:
        text: The page.
        files: Names and contents of the files that its programs find in their folder.
    """
    # AutoGraph asks for the module and the source of each function, so there has to be a module,
    # and a file for each block.
    page_module = types.ModuleType("page")
    sys.modules[page_module.__name__] = page_module
    numbers = itertools.count(1)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_text(content, encoding="utf-8")

        def with_output(block: re.Match[str]) -> str:
            if block["console"] is not None:
                return _with_commands(block["console"])
            if _FILE.match(block[0]):
                return block[0]
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
        sys.path.insert(0, folder)
        try:
            return _BLOCK.sub(with_output, text)
        finally:
            sys.path.remove(folder)
            os.chdir(before)


def _files_beside(page: Path) -> dict[str, str]:
    """Returns the names and contents of the files that the pages of a folder show."""
    pages = [path.read_text(encoding="utf-8") for path in sorted(page.parent.glob("*.md"))]
    return {found["name"]: found["code"] for text in pages for found in _FILE.finditer(text)}


def _with_commands(console: str) -> str:
    """Returns a console block with the output of its commands."""
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
    """Runs a program; returns its output without blanks at the ends of lines."""
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
    rendered = render(written, _files_beside(page))
    if not check:
        page.write_text(rendered, encoding="utf-8")
    elif rendered != written:
        print(*difflib.unified_diff(written.splitlines(), rendered.splitlines()), sep="\n")
        sys.exit(f"{page} is out of date: run python docs/make_outputs.py")


def _renew_in_fork(page: Path, check: bool) -> bool:
    """Renews a page in a process of its own, which has TensorFlow from this one.

    Returns:
        Whether it could.
    """
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    failed = 1
    try:
        renew(page, check)
        failed = 0
    except SystemExit as out_of_date:
        print(out_of_date, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failed)  # what this process does when it ends is done by its parent


def main() -> None:
    """Renews the pages, or checks them. Each page is a program, with a process of its own."""
    here = Path(__file__).parent
    named = [argument for argument in sys.argv[1:] if argument != "--check"] or PAGES
    check = "--check" in sys.argv
    pages = []
    for name in named:
        path = here / name
        pages += sorted(path.glob("*.md")) if path.is_dir() else [path]
    if len(pages) == 1:
        renew(pages[0], check)
        return
    # Importing takes longer than most pages, so they share it. It starts no threads.
    importlib.import_module("tensorflow.python.ipu")
    failed = [page for page in pages if not _renew_in_fork(page, check)]
    if failed:
        sys.exit(f"failed: {', '.join(str(page.relative_to(here)) for page in failed)}")


if __name__ == "__main__":
    main()
