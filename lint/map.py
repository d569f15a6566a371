"""Prints every package and module with the first line of its docstring, for `make map`.

.venv/bin/python lint/map.py            # all of the package
.venv/bin/python lint/map.py planner    # one package
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tensorflow_ipu"


def first_line(path: Path) -> str:
    """Returns the first line of a module's docstring, or "" without one.

    Args:
        path: the file of the module.
    """
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return docstring.splitlines()[0] if docstring else ""


def lines(folder: Path, depth: int = 0) -> Iterator[str]:
    """Yields a line for a package, its modules and its packages, indented by depth.

    Args:
        folder: the folder of the package.
        depth: the number of packages around it.
    """
    inits = folder / "__init__.py"
    summary = first_line(inits) if inits.is_file() else ""
    yield f"{'  ' * depth}{folder.name}/  {summary}".rstrip()
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py" and not path.stem.endswith("_pb2"):
            yield f"{'  ' * (depth + 1)}{path.stem}  {first_line(path)}".rstrip()
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and any(inner.glob("*.py")):
            yield from lines(inner, depth + 1)


def main(arguments: list[str]) -> int:
    """Prints the map.

    Args:
        arguments: the command line without the program.

    Returns:
        1 if there is no such package, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", default="", help="dotted name below tensorflow_ipu")
    folder = PACKAGE.joinpath(*parser.parse_args(arguments).package.split("."))
    if not folder.is_dir():
        print(f"map.py: expected a package of tensorflow_ipu, received {folder.name}.")
        return 1
    print("\n".join(lines(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
