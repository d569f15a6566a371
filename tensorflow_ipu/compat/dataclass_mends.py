"""Rewrites of dataclass defaults for migration: `model: Model = Model()`."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator

from tensorflow_ipu.compat.bindings import Reference, targets
from tensorflow_ipu.compat.edits import Edit
from tensorflow_ipu.compat.findings import Finding, Subject

_DECORATOR, _FIELD = "dataclasses.dataclass", "dataclasses.field"
_WHY = "an instance that cannot be hashed is no default since Python 3.11"


class DataclassMends:
    """Rewrites of defaults of fields that Python 3.11 refuses.

    Args:
        subject: the file.
    """

    def __init__(self, subject: Subject) -> None:
        self._source, self._uses = subject.file.source, subject.uses
        self._by_node = {id(one.nodes[-1]): one for one in subject.uses.references}
        classes = [node for node in ast.walk(subject.file.tree) if isinstance(node, ast.ClassDef)]
        self._classes = [(c, made) for c in classes if (made := self._decorator(c)) is not None]
        self._names = {node.name for node, _ in self._classes}

    def findings(self) -> Iterator[Finding]:
        """Yields the rewrites of the dataclasses of a file."""
        for node, decorator in self._classes:
            for statement in node.body:
                value = statement.value if isinstance(statement, ast.AnnAssign) else None
                if isinstance(value, ast.Call) and self._is_instance(statement, value):
                    yield self._exchanged(value, decorator)

    def _decorator(self, node: ast.ClassDef) -> Reference | None:
        """Returns the decorator that makes a class a dataclass."""
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            reference = self._by_node.get(id(called))
            if reference is not None and reference.name == _DECORATOR:
                return reference
        return None

    def _is_instance(self, statement: ast.stmt, value: ast.Call) -> bool:
        """Returns whether a default is visibly an instance of a dataclass.

        That is one of a dataclass of the file, or of a class of the program that the annotation
        names, too.
        """
        made = self._source.text(value.func)
        if made in self._names:
            return True
        if not isinstance(statement, ast.AnnAssign) or hasattr(builtins, made):
            return False
        if self._source.text(statement.annotation).strip("\"'") != made:
            return False
        reference = self._by_node.get(id(value.func))
        return reference is None or reference.name.split(".")[0] not in sys.stdlib_module_names

    def _exchanged(self, value: ast.Call, decorator: Reference) -> Finding:
        """Returns the change of a default to a factory."""
        source = self._source
        made = source.text(value.func)
        if value.args or value.keywords:
            made = f"lambda: {source.text(value)}"
        call, edits = self._field(decorator)
        text = f"{call}(default_factory={made})"
        edit = Edit(source.start(value), source.end(value), text)
        return Finding(value.lineno, source.text(value), text, _WHY, (edit, *edits))

    def _field(self, decorator: Reference) -> tuple[str, tuple[Edit, ...]]:
        """Returns the file's name for `dataclasses.field`, and its import."""
        for name, binding in self._uses.top.items():
            if binding.target == _FIELD:
                return name, ()
            if binding.target == "dataclasses":
                return f"{name}.field", ()
        statement = decorator.binding.statement
        alias = next(a for a, (_, t) in zip(statement.names, targets(statement)) if t == _DECORATOR)
        name = "field"
        while name in self._uses.names:
            name += "_"
        end = self._source.end(alias)
        added = "field" if name == "field" else f"field as {name}"
        return name, (Edit(end, end, f", {added}"),)
