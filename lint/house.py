"""Measures the structure of the package, its docstrings and names of tests, for `make lint`.

Prints one line for each measure with its limit, and the places of those that may have none. Below
its target a measure may rise again: a new subject is a new module.

    .venv/bin/python lint/house.py          # all measures
    .venv/bin/python lint/house.py --list   # and the places that count
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import grimp

from tensorflow_ipu.import_hook import finder

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = finder.PACKAGE

#: Words that stand for a noun which has a name: the lead of a docstring names it instead.
RULED_OUT = re.compile(
    r"\b(what|whatever|who|whoever|those of|that of|so many|in the place of|such as it is"
    r"|one that)\b",
    re.IGNORECASE,
)


#: The most words of a test's name after `test_`; details go to the body.
WORDS_OF_A_TEST_NAME = 8


class Limit(NamedTuple):
    """The largest allowed value of a measure.

    Args:
        value: the limit.
        target: the value that the project works towards.
    """

    value: float
    target: float


LIMITS = {
    "modules": Limit(650, 650),
    "modules with one importer, in the same folder": Limit(60, 60),
    "circles of imports, type-only ones counted": Limit(0, 0),
    "entries of the package's root": Limit(22, 22),
    "docstring leads with ruled-out words, percent": Limit(0, 0),
    "test names of more than eight words": Limit(0, 0),
}


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Returns the groups of modules that import each other, by Tarjan's algorithm.

    Args:
        graph: the modules of the package and their imports.
    """
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            if imported not in order:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], order[imported])
        if lowest[module] == order[module]:
            position = stack.index(module)
            members = stack[position:]
            del stack[position:]
            if len(members) > 1:
                found.append(sorted(members))

    for module in sorted(graph.modules):
        if module not in order:
            visit(module)
    return found


def public_modules() -> set[str]:
    """Returns the modules with a public path, from the tables of the import hook.

    Programs import these by their path, so that they have importers outside of the package.
    """
    return {f"{PACKAGE}.{path}" for _, table in finder.ROOTS.values() for path in table.values()}


def lone_modules(graph: grimp.ImportGraph, public: set[str]) -> list[str]:
    """Returns the modules whose only importer is in their folder: candidates for joining.

    A package's `__init__` counts as an importer in the folder of its modules.

    Args:
        graph: the modules of the package and their imports.
        public: the modules that programs import by a public path.
    """
    lone = []
    for module in sorted(graph.modules - public):
        importers = graph.find_modules_that_directly_import(module)
        folder = module.rpartition(".")[0]
        if len(importers) == 1 and not graph.find_children(module):
            (importer,) = importers
            if folder in (importer, importer.rpartition(".")[0]):
                lone.append(f"{module} <- {importer}")
    return lone


@functools.cache
def trees() -> list[tuple[str, ast.Module]]:
    """Returns name and syntax tree of every Python file that git knows."""
    listing = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [
        (name, ast.parse((ROOT / name).read_text(encoding="utf-8")))
        for name in listing.stdout.splitlines()
        if "/proto/" not in name and (ROOT / name).is_file()
    ]


def leads() -> tuple[list[str], int]:
    """Returns the places of docstring leads with ruled-out words, and the number of all leads."""
    ruled_out, count = [], 0
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(
                node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            ) and (docstring := ast.get_docstring(node)):
                count += 1
                lead = " ".join(docstring.split("\n\n")[0].split())
                if RULED_OUT.search(lead):
                    ruled_out.append(f"{name}:{node.body[0].lineno}: {lead}")
    return ruled_out, count


def long_test_names() -> list[str]:
    """Returns the places of tests whose name has too many words."""
    return [
        f"{name}:{node.lineno}: {node.name}"
        for name, tree in trees()
        if name.startswith("tests/")
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and len(node.name.split("_")) - 1 > WORDS_OF_A_TEST_NAME
    ]


def root_entries() -> list[str]:
    """Returns the modules and folders of the package's root."""
    return sorted(
        path.name
        for path in (ROOT / PACKAGE).iterdir()
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
    )


def main(arguments: list[str]) -> int:
    """Prints all measures.

    Args:
        arguments: those of the command line.

    Returns:
        1 if a measure exceeds its limit, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the places that count")
    listed = parser.parse_args(arguments).list
    sys.setrecursionlimit(10_000)
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    ruled_out, count = leads()
    places = {
        "modules": sorted(graph.modules),
        "modules with one importer, in the same folder": lone_modules(graph, public_modules()),
        "circles of imports, type-only ones counted": [" ".join(each) for each in circles(graph)],
        "entries of the package's root": root_entries(),
        "docstring leads with ruled-out words, percent": ruled_out,
        "test names of more than eight words": long_test_names(),
    }
    exceeded = False
    for name, limit in LIMITS.items():
        value: float = len(places[name])
        if name.endswith("percent"):
            value = round(100 * value / count, 1)
        too_large = value > limit.value
        exceeded |= too_large
        note = f"more than the limit of {limit.value:g}" if too_large else f"limit {limit.value:g}"
        print(f"{value:8g}  {name}: {note}, target {limit.target:g}")
        if listed and name != "modules":
            print("".join(f"          {place}\n" for place in places[name]), end="")
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
