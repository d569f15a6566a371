"""Runs the programs of a page and writes what they print into it: `python docs/make_outputs.py`.

The Python blocks of the page run from top to bottom as one program. A block of text right after one
of them is what it prints. With `--check` nothing is written, and a page that is out of date is an
error.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import sys
import tempfile
import types
from pathlib import Path

PAGE = Path(__file__).with_name("parallelism.md")

_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)


def render(text: str) -> str:
    """Returns a page with what its programs print today.

    Args:
        text: The page.
    """
    # AutoGraph asks for the module and the source of each function, so there has to be a module,
    # and a file for each block.
    page_module = types.ModuleType("page")
    sys.modules[page_module.__name__] = page_module
    with tempfile.TemporaryDirectory() as folder:

        def with_output(block: re.Match[str]) -> str:
            code = block["code"]
            path = Path(folder) / f"block_{block.start()}.py"
            path.write_text(code, encoding="utf-8")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, path, "exec"), page_module.__dict__)
            output = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
            shown = f"\n```text\n{output}```\n" if output else ""
            return f"```python\n{code}```\n{shown}"

        return _BLOCK.sub(with_output, text)


def main() -> None:
    """Renews the page, or checks it."""
    written = PAGE.read_text(encoding="utf-8")
    rendered = render(written)
    if "--check" not in sys.argv:
        PAGE.write_text(rendered, encoding="utf-8")
    elif rendered != written:
        print(*difflib.unified_diff(written.splitlines(), rendered.splitlines()), sep="\n")
        sys.exit(f"{PAGE} is out of date: run python docs/make_outputs.py")


if __name__ == "__main__":
    main()
