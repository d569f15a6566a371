"""Rewrites of imports for migration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tensorflow_ipu.compat import targets
from tensorflow_ipu.compat.bindings import Import
from tensorflow_ipu.compat.edits import Edit
from tensorflow_ipu.compat.findings import Finding, Subject
from tensorflow_ipu.compat.rows import of_keras_2

_VERSION_1 = "tensorflow.compat.v1"


class ImportMends:
    """Changes to make in the imports of a file.

    Args:
        subject: the file.
    """

    def __init__(self, subject: Subject) -> None:
        self._source, self._uses, self._wanted = subject.file.source, subject.uses, subject.wanted

    def findings(self, statement: Import) -> Iterator[Finding]:
        """Yields the changes to make in an import."""
        if isinstance(statement, ast.ImportFrom) and (statement.level or not statement.module):
            return
        old = [_written(statement, alias) for alias in statement.names]
        new = [self._new_import(statement, alias) for alias in statement.names]
        if old == [part for parts in new for part in parts[0]]:
            return
        gone = [advice for _, _, advice in new if advice]
        whys = "; ".join(dict.fromkeys(why for _, why, _ in new if why))
        lines = [line for parts, _, _ in new for line in parts]
        what = " ".join(self._source.text(statement).split())
        if gone:
            yield Finding(statement.lineno, what, " ".join(gone), whys, ())
            return
        text = _joined(lines)
        yield Finding(
            statement.lineno, what, "; ".join(text), whys, self._replaced(statement, text)
        )

    def _new_import(self, statement: Import, alias: ast.alias) -> tuple[list[str], str, str]:
        """Returns the new imports of one name, the reason, and advice if there are none."""
        if isinstance(statement, ast.Import):
            return self._new_module(alias)
        module = statement.module or ""
        name = f"{module}.{alias.name}"
        if alias.name == "*":
            return self._new_star(statement, alias)
        new, why, advice = targets.target(name, self._wanted)
        if name == _VERSION_1 and self._wanted.tensorflow == 1:
            return self._turned_on(_written(statement, alias), alias.asname or alias.name)
        if new == name:
            return [_written(statement, alias)], "", ""
        if advice:
            return [], why, advice
        parts = [import_from(new, alias.asname or alias.name)]
        if targets.is_tensorflow_1(name, self._wanted) and self._is_first(statement, alias):
            base = import_from("tensorflow.compat.v1.disable_v2_behavior", "disable_v2_behavior")
            parts += [base, "disable_v2_behavior()"]
        return parts, why, ""

    def _new_star(self, statement: ast.ImportFrom, alias: ast.alias) -> tuple[list[str], str, str]:
        """Returns the new lines for `from module import *`."""
        module = statement.module or ""
        new = targets.modules(module, self._wanted)
        if new is None:
            return [_written(statement, alias)], "", ""
        if len(new[0]) != 1:
            return [], new[1], f"import the names from {', '.join(new[0])}"
        return [f"from {new[0][0]} import *"], new[1], ""

    def _new_module(self, alias: ast.alias) -> tuple[list[str], str, str]:
        """Returns the new lines for `import module as name`."""
        old = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        new = targets.modules(alias.name, self._wanted)
        if new is None:
            if alias.name == _VERSION_1 and self._wanted.tensorflow == 1:
                return self._turned_on(old, alias.asname or alias.name)
            if (
                alias.name != "tensorflow"
                and alias.name.startswith("tensorflow.")
                and (not alias.asname and self._wanted.tensorflow == 1)
            ):
                return (
                    [],
                    "tensorflow means TensorFlow 1 here",
                    (
                        f"write `from {alias.name.rpartition('.')[0]} import "
                        f"{alias.name.rpartition('.')[2]}`"
                    ),
                )
            return [old], "", ""
        modules, why = new
        if not modules:
            return [], why, why
        if len(modules) != 1:
            return [], why, f"import what is used of it from {', '.join(modules)}"
        if alias.asname is None and "." in alias.name:
            # A use by its full name gets an import of its own.
            root = alias.name.split(".")[0]
            kept = import_as(of_keras_2(root), root)
            if root == "tensorflow" and self._wanted.tensorflow == 1:
                kept = "import tensorflow.compat.v1 as tensorflow"
            return [kept], why, ""
        parts = [f"import {modules[0]} as {alias.asname or alias.name}"]
        if alias.name == "tensorflow":
            parts.append(f"{alias.asname or alias.name}.disable_v2_behavior()")
        return parts, why, ""

    def _turned_on(self, statement: str, name: str) -> tuple[list[str], str, str]:
        """Returns an import of TensorFlow 1's module, and the call that enables its behavior."""
        if "disable_v2_behavior" in self._source.content.decode("utf-8", "replace"):
            return [statement], "", ""
        return [statement, f"{name}.disable_v2_behavior()"], targets.TENSORFLOW_1, ""

    def _is_first(self, statement: ast.ImportFrom, alias: ast.alias) -> bool:
        """Returns whether an import is the file's first of TensorFlow 1: it enables that."""
        for other in self._uses.imports:
            for one in other.names:
                name = one.name
                if isinstance(other, ast.ImportFrom):
                    name = f"{other.module}.{one.name}"
                if not getattr(other, "level", 0) and targets.is_tensorflow_1(name, self._wanted):
                    return other is statement and one is alias
        return False

    def _replaced(self, statement: Import, lines: list[str]) -> tuple[Edit, ...]:
        """Returns the edit of an import; none if a comment would be lost, or a line be split."""
        source = self._source
        start, end = source.start(statement), source.end(statement)
        indentation = source.indentation(statement)
        if b"#" in source.content[start:end]:
            return ()
        if len(lines) > 1 and not (indentation is not None and source.is_alone(statement)):
            return (Edit(start, end, "; ".join(lines)),)
        return (Edit(start, end, (source.newline + (indentation or "")).join(lines)),)


def _written(statement: Import, alias: ast.alias) -> str:
    """Returns an import of one name as it is written."""
    name = f" as {alias.asname}" if alias.asname else ""
    if isinstance(statement, ast.Import):
        return f"import {alias.name}{name}"
    return f"from {statement.module} import {alias.name}{name}"


def import_as(module: str, local: str) -> str:
    """Returns the import of a module by a name."""
    if "." in module:
        return import_from(module, local)
    return f"import {module}" + (f" as {local}" if local != module else "")


def import_from(full: str, local: str) -> str:
    """Returns `from module import name as local`."""
    module, _, name = full.rpartition(".")
    if not module:
        return f"import {full}" + (f" as {local}" if local != full else "")
    if module == "builtins":
        return f"{local} = {name}" if local != name else f"from builtins import {name}"
    return f"from {module} import {name}" + (f" as {local}" if local != name else "")


def _joined(lines: list[str]) -> list[str]:
    """Joins imports from the same module, in the order of the first of each."""
    result: list[str] = []
    modules: dict[str, int] = {}
    for line in lines:
        module, found, name = line.partition(" import ")
        if found and module.startswith("from ") and module in modules:
            result[modules[module]] += f", {name}"
        else:
            if found:
                modules[module] = len(result)
            result.append(line)
    return result
