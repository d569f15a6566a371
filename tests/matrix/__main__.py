"""Builds, installs and tests wheels for several releases of TensorFlow: `make matrix`.

    python -m tests.matrix --rows "2.15-* 2.21-py3.13" tests/feeds tests/test_loops.py

Each row is an environment of its own in `build/matrix/`; what remains of it is its output and its
result. A row that failed is run again the next time, one that passed is not, unless asked for.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from tests.matrix import steps, table
from tests.matrix.rows import Row, interpreter, rows

#: Pages that have a place for the table.
PAGES = ("README.md", "docs/versions.md")


def main(arguments: list[str]) -> int:
    """Runs rows and writes the table.

    Args:
        arguments: of the command line.

    Returns:
        The exit code: 1 if anything failed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix",
        description="Builds, installs and tests wheels. Other arguments are those of pytest.",
        allow_abbrev=False,
    )
    parser.add_argument("--rows", default="", help="patterns, such as '2.15-* 2.21-py3.13'")
    parser.add_argument("--again", action="store_true", help="run rows that passed, too")
    parser.add_argument(
        "--keep", action="store_true", help="keep the environments (2 GB each) for the next time"
    )
    parser.add_argument("--folder", type=Path, default=steps.ROOT / "build" / "matrix")
    parser.add_argument("--wheels", type=Path, default=steps.ROOT / "dist")
    options, tests = parser.parse_known_args(arguments)
    chosen = rows(options.rows)
    options.folder.mkdir(parents=True, exist_ok=True)
    for row in chosen:
        _run(row, options, tests)
    done = [table.load(_result(row, options)) for row in rows("*")]
    results = [result for result in done if result is not None]
    text = table.render(results)
    print(text)
    for name in PAGES:
        page = steps.ROOT / name
        if page.exists():
            page.write_text(table.put_into(page.read_text(encoding="utf-8"), text))
    return 0 if all(table.is_good(result) for result in results) else 1


def _result(row: Row, options: argparse.Namespace) -> Path:
    path: Path = options.folder / f"{row.name}.json"
    return path


def _run(row: Row, options: argparse.Namespace, tests: list[str]) -> None:
    """Runs a row, unless it passed before, and writes its result."""
    path = _result(row, options)
    before = table.load(path)
    if before is not None and table.is_good(before) and not options.again:
        print(f"{row.name}: passed before", flush=True)
        return
    python = interpreter(row.python)
    if python is None:
        print(f"{row.name}: there is no Python {row.python} here", flush=True)
        return
    result: dict[str, Any] = {"tensorflow": row.release.tensorflow, "python": row.python}
    result["when"] = time.strftime("%Y-%m-%d")
    folder = options.folder / row.name
    try:
        _steps(steps.Environment(row, python, folder), options, tests, result)
    except steps.StepError as error:
        result["error"] = str(error)
        print(f"{row.name}: {error}", flush=True)
    table.save(path, result)
    if not options.keep:
        shutil.rmtree(folder / "venv", ignore_errors=True)


def _steps(
    environment: steps.Environment,
    options: argparse.Namespace,
    tests: list[str],
    result: dict[str, Any],
) -> None:
    """Runs the steps of a row, each of which says in the result how it ended."""
    result["wheel"] = "fails"
    wheel = steps.build_wheel(environment, options.folder, options.wheels)
    steps.install(environment, wheel)
    result["wheel"] = "installs"
    result["tensorflow"], result["python"] = environment.versions()
    print(f"{environment.row.name}: {wheel.name} installs", flush=True)
    result["program"] = "fails"
    steps.run_program(environment)
    result["program"] = "runs"
    result.update(steps.run_tests(environment, wheel, tests))
    numbers = ", ".join(f"{result[name]} {name}" for name in ("passed", "failed", "skipped"))
    print(f"{environment.row.name}: {numbers}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
