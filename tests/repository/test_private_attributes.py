"""No module reads private attributes that classes or modules of other modules of ours have.

What another module needs is part of an interface. Where its name has to begin with an underscore,
because all other names of the object belong to users, a `Protocol` declares it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout.repository import ROOT, modules

# Names that objects of others have as well, which these modules mean.
_OF_OTHERS = {
    "_compute_gradients": "optimizers of Keras",
    "_functions": "graphs of TensorFlow",
    "_losses": "models and losses of Keras",
    "_metrics": "layers of Keras",
    "_name": "functions of TensorFlow",
    "_numpy": "eager tensors of TensorFlow",
    "_opt": "optimizers of TensorFlow 1 that wrap another",
}
_OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
# What `IPUEstimatorBase` gives the modules that build programs for it. Names without an underscore
# would be part of the public class.
_OF_ESTIMATORS = {
    "_compile",
    "_ipu",
    "_on_host",
}


class _Module:
    """Names that one module defines and reads.

    Attributes:
        path: Where it is.
        names: Private names of the module.
        members: Private attributes of its classes.
        declared: Private attributes that its protocols declare.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tree = ast.parse(path.read_text(encoding="utf-8"))
        self.names = {name for name in _assigned(self._tree.body) if _is_private(name)}
        self.members: set[str] = set()
        self.declared: set[str] = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ClassDef):
                is_protocol = any(ast.unparse(base) == "Protocol" for base in node.bases)
                members = self.declared if is_protocol else self.members
                members.update(name for name in _members(node) if _is_private(name))
        self._imported = {
            alias.asname or alias.name
            for node in ast.walk(self._tree)
            if isinstance(node, ast.ImportFrom) and _is_ours(node)
            for alias in node.names
        }

    def imports(self) -> Iterator[tuple[int, str]]:
        """Yields line and text of imports of a private name of another module of ours."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom) and _is_ours(node):
                for alias in node.names:
                    if _is_private(alias.name) and not _is_module(node, alias.name):
                        yield node.lineno, f"from {node.module} import {alias.name}"

    def reads(self) -> Iterator[tuple[int, str, str]]:
        """Yields line, text and name of private attributes outside its own classes."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and _is_private(node.attr):
                owner = ast.unparse(node.value)
                if owner not in ("self", "cls", "super()") and node.attr not in self.members:
                    yield node.lineno, f"{owner}.{node.attr}", node.attr

    def is_imported(self, text: str) -> bool:
        """Returns whether the name before the first dot comes from another module of ours."""
        return text.split(".")[0] in self._imported


def _is_ours(node: ast.ImportFrom) -> bool:
    return (node.module or "").startswith("tensorflow_ipu")


def _is_module(node: ast.ImportFrom, name: str) -> bool:
    folder = ROOT.joinpath(*(node.module or "").split("."))
    return (folder / f"{name}.py").exists()


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    """Yields the names that statements of a module or class define."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = (name for target in targets for name in ast.walk(target))
            yield from (name.id for name in names if isinstance(name, ast.Name))


def _members(node: ast.ClassDef) -> Iterator[str]:
    """Yields the attributes of a class and its objects."""
    yield from _assigned(node.body)
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or not method.args.args:
            continue
        this = method.args.args[0].arg
        for inner in ast.walk(method):
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                if isinstance(inner.value, ast.Name) and inner.value.id == this:
                    yield inner.attr


@pytest.fixture(scope="module")
def parsed() -> list[_Module]:
    return [_Module(path) for path in modules()]


def _findings(parsed: list[_Module]) -> list[tuple[str, str]]:
    """Returns place and name of private reads across modules."""
    members = set().union(*(module.members for module in parsed))
    names = set().union(*(module.names for module in parsed))
    declared = set().union(*(module.declared for module in parsed)) | _OF_NAMED_TUPLES
    found = []
    for module in parsed:
        if module.path.name.endswith("_pb2.py"):
            continue  # generated
        for line, text, name in module.reads():
            known = members | names if module.is_imported(text) else members
            if name in known and name not in declared:
                found.append((f"{module.path.relative_to(ROOT)}:{line}: {text}", name))
        found += [
            (f"{module.path.relative_to(ROOT)}:{line}: {text}", "")
            for line, text in module.imports()
        ]
    return found


def test_nobody_reads_private_attributes_of_others(parsed: list[_Module]) -> None:
    found = [
        place
        for place, name in _findings(parsed)
        if name not in _OF_OTHERS
        and not (name in _OF_ESTIMATORS and place.startswith("estimators/"))
    ]
    assert not found, "\n".join(found)


def test_exceptions_are_needed(parsed: list[_Module]) -> None:
    found = {name for _, name in _findings(parsed)}
    assert found >= {*_OF_OTHERS, *_OF_ESTIMATORS}
