"""Properties of ops are in one table, `op_names.py`: no other module lists the same ops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorflow_ipu.util import op_names

ROOT = Path(__file__).parents[2]
PACKAGES = ("tensorflow_ipu", "configs", "ops", "keras_layers", "estimators")
TABLE = "tensorflow_ipu/util/op_names.py"

NAMES = frozenset().union(
    op_names.CONTROL_FLOW,
    op_names.FRAME_OPS,
    {op_names.READ},
    op_names.ASSIGNMENTS,
    op_names.PYTHON_CALLS,
    op_names.FEEDS,
    op_names.TABLE_OPS,
    op_names.COLLECTIVES,
    op_names.DROPPED_CHECKS,
    # What the names of ops that write variables begin with.
    {"ResourceApply", "ResourceSparseApply", "ResourceScatter"},
)

# Modules that list such ops for another fact, which is theirs.
EXCEPTIONS = {
    "tensorflow_ipu/compiler/checks/operator_table.py": "lists ops of the chip, texts by prefix",
    "tensorflow_ipu/compiler/workload/buffers.py": "lists views, a check of values among them",
}


def _collections(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Yields the line and the words of all that lists things.

    These are sets, tuples, lists, keys of dicts, and texts with several words, of which `split`
    makes a list.
    """
    for node in ast.walk(tree):
        if isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
            words = [part.value for part in parts if isinstance(part, ast.Constant)]
            yield node.lineno, [word for word in words if isinstance(word, str)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, _ops_of(node.value)


def _ops_of(text: str) -> list[str]:
    """Returns the words of a text that lists only op names, without bracketed parts."""
    words = [word.partition("(")[0] for word in text.split()]
    names = all(re.fullmatch(r"_?[A-Z]\w*", word) for word in words)
    return words if names and len(words) > 1 else []


def _listed(path: Path) -> list[str]:
    """The names that a module lists, with lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sorted(
        {
            f"{line}: {name}"
            for line, words in _collections(tree)
            for name in NAMES.intersection(words)
        }
    )


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                yield str(path.relative_to(ROOT))


def test_no_other_module_lists_what_ops_are() -> None:
    found = {name: _listed(ROOT / name) for name in _modules() if name not in {TABLE, *EXCEPTIONS}}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions_are_needed(name: str) -> None:
    assert _listed(ROOT / name)


@pytest.mark.parametrize(
    "source",
    [
        'LOOPS = ("While", "StatelessWhile")',
        "x = [*others, 'IpuAllGather']",
        'RULES = {"IpuAllToAll": 1}',
        'NAMES = """\n    Const If(cond)\n    Sum\n    """.split()',
        'node.op.startswith(("ResourceApply", "Other"))',
    ],
)
def test_lists_are_found(source: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert _listed(path)


@pytest.mark.parametrize(
    "source",
    ['"""If it is so, Merge both."""', 'op == "If"', 'shapes = {"MatMul": 2, "Conv2D": 4}'],
)
def test_what_is_no_list(source: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert _listed(path) == []
