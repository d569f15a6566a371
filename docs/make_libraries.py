"""Runs the programs of docs/guides/libraries.md and writes their output into it.

`python docs/make_libraries.py [--check] [TITLE ...]` runs sections of the page, each in a process
of its own, as `make_outputs.py` does those of other pages. The programs need packages that nothing
else needs (the extra `libraries`), so a section whose packages are not installed stays as it is.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import make_outputs

PAGE = Path(__file__).with_name("guides") / "libraries.md"

_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_CODE = re.compile(r"```py\n(.*?)```", re.DOTALL)
_IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Returns the sections that have programs, by title.

    Args:
        text: the page.
    """
    _, *found = _SECTION.split(text)
    return {
        section.partition("\n")[0].removeprefix("## "): section
        for section in found
        if _CODE.search(section)
    }


def missing(section: str) -> list[str]:
    """Returns the packages that a section imports and that are not installed.

    Args:
        section: its text.
    """
    imported = _IMPORT.findall("\n".join(_CODE.findall(section)))
    return sorted(name for name in set(imported) if importlib.util.find_spec(name) is None)


def renew(title: str, check: bool) -> None:
    """Renews a section, or checks it.

    Args:
        title: of the section.
        check: whether to write nothing.

    Raises:
        SystemExit: If it is to be checked and is out of date.
    """
    section = sections(PAGE.read_text(encoding="utf-8"))[title]
    rendered = make_outputs.render(section.replace("```py\n", "```python\n"), {})
    rendered = rendered.replace("```python\n", "```py\n")
    if not check:
        # Read anew: other sections may run at the same time.
        page = PAGE.read_text(encoding="utf-8").replace(section, rendered)
        PAGE.write_text(page, encoding="utf-8")
    elif rendered != section:
        print(*difflib.unified_diff(section.splitlines(), rendered.splitlines()), sep="\n")
        sys.exit(f"{title!r} is out of date: run python docs/make_libraries.py {title!r}")


def main() -> None:
    """Renews sections, or checks them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("titles", nargs="*", help="titles of sections; all of them if none")
    parser.add_argument("--check", action="store_true", help="write nothing, and compare")
    arguments = parser.parse_args()
    if len(arguments.titles) == 1:
        renew(arguments.titles[0], arguments.check)
        return
    failed = []
    found = sections(PAGE.read_text(encoding="utf-8"))
    for title in arguments.titles or found:
        absent = missing(found[title])
        if absent:
            print(f"{title}: left as it is, without {', '.join(absent)}")
            continue
        flags = ["--check"] if arguments.check else []
        if subprocess.call([sys.executable, __file__, *flags, title]) != 0:
            failed.append(title)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
