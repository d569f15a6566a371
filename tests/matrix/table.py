"""The table of the matrix, as data and in pages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_HEAD = (
    "| TensorFlow | Python | wheel | program of the README | passed | failed | skipped | when |\n"
    "| --- | --- | --- | --- | ---: | ---: | ---: | --- |\n"
)
_COUNTS = ("passed", "failed", "skipped")
#: Between these lines pages have the table.
BEGIN, END = "<!-- make matrix -->", "<!-- end of make matrix -->"


def is_good(result: dict[str, Any]) -> bool:
    """Returns whether nothing of a row failed.

    Args:
        result: of a row, as `render` takes them.
    """
    return not result.get("error") and result.get("failed") == 0


def render(results: list[dict[str, Any]]) -> str:
    """Returns the table in Markdown.

    Args:
        results: one for each row, with the texts "tensorflow", "python", "wheel", "program" and
            "when", and the numbers "passed", "failed" and "skipped"; what is not there was not
            reached.
    """
    return _HEAD + "".join(_line(result) for result in results)


def put_into(page: str, table: str) -> str:
    """Returns a page with the table in the place for it, or as it is if there is none.

    Args:
        page: text of the page.
        table: what `render` returns.
    """
    place = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    return place.sub(lambda _: f"{BEGIN}\n{table}{END}", page)


def save(path: Path, result: dict[str, Any]) -> None:
    """Writes the result of a row.

    Args:
        path: file to write.
        result: what `render` takes.
    """
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any] | None:
    """Returns the result of a row, or None if it has not run.

    Args:
        path: file that `save` wrote.
    """
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def _line(result: dict[str, Any]) -> str:
    texts = [str(result.get(name, "-")) for name in ("tensorflow", "python", "wheel", "program")]
    numbers = [str(result.get(name, "-")) for name in _COUNTS]
    return f"| {' | '.join([*texts, *numbers, str(result.get('when', '-'))])} |\n"
