"""Tests of faults that linters miss: expressions that the oldest Python cannot evaluate."""

from __future__ import annotations

import ast

import pytest

from tests.support.checkout import repository

_TYPES = set("bool bytes dict float frozenset int list set str tuple type".split())
_TYPES |= {"Any", "Callable", "Iterable", "Mapping", "Path", "Sequence"}


def _annotations(tree):
    """Yields the nodes of annotations, which nothing evaluates (`from __future__ import ...`)."""
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            annotation = getattr(node, field, None)
            if isinstance(annotation, ast.AST):
                yield from ast.walk(annotation)


def _is_type(node):
    if isinstance(node, ast.Subscript):
        return _is_type(node.value)
    names = isinstance(node, ast.Name) and node.id in _TYPES
    return names or (isinstance(node, ast.Constant) and node.value is None)


def unions(source):
    """Returns the unions of types that are evaluated, as text."""
    tree = ast.parse(source)
    ignored = {id(node) for node in _annotations(tree)}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitOr)
        and id(node) not in ignored
        and (_is_type(node.left) or _is_type(node.right))
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Alias = Mapping[int | None, str]", ["int | None"]),
        ("isinstance(x, int | float)", ["int | float"]),
        ("def f(x: int | None) -> str | None: y: list[int] | None = flags | other", []),
    ],
)
def test_unions_are_found_where_they_are_evaluated(source, found):
    assert unions(source) == found


def test_no_module_evaluates_a_union_of_types():
    """Python 3.9 has none; `Optional` and `Union` say the same."""
    found = {path.name: unions(path.read_text(encoding="utf-8")) for path in repository.modules()}
    assert {name: texts for name, texts in found.items() if texts} == {}
