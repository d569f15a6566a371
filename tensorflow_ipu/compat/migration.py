"""Changes that make a program run without shims: rewrites of calls, defaults, imports and uses."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.compat import bindings, generation, sources, tables
from tensorflow_ipu.compat.bindings import Import, NameBinding, Reference
from tensorflow_ipu.compat.findings import Edit, File, Finding, SourceText, Subject
from tensorflow_ipu.compat.generation import Generation
from tensorflow_ipu.compat.rows import (
    KERAS_2,
    Gone,
    Method,
    Module,
    Name,
    canonical,
    is_below,
    of_keras_2,
)
from tensorflow_ipu.compat.tables import contrib_names

# --- Today's names for names of an older program, found without importing them ---

#: Why something is to be changed, where no row of a table says it.
TENSORFLOW_1 = "the program uses names of TensorFlow 1"


OPTIMIZERS = "another class since Keras 2.11, and the program relies on the old one"


KERAS_3 = "keras is Keras 3 since TensorFlow 2.16"


NOTHING = "nothing takes its place"


#: Advice for this case.
BY_HAND = "look for a replacement"


#: The modules of `tensorflow_ipu.compat.contrib`.
CONTRIB_MODULES = frozenset(
    (
        contrib_names.PACKAGE,
        *(f"{contrib_names.PACKAGE}.{name}" for name in (*contrib_names.TABLE, "compiler")),
    )
)


class CurrentName(NamedTuple):
    """The name of today for a name of an older program.

    Args:
        name: its full name; empty if there is none.
        why: why it changed; empty if it did not.
        advice: an instruction for the user if there is none.
    """

    name: str
    why: str = ""
    advice: str = ""


def target(name: str, wanted: Generation) -> CurrentName:
    """Returns the full name of today for a full name of a program.

    Args:
        name: the name.
        wanted: the generation that the program was written for.
    """
    found = tables.find(name)
    if found is None:
        if wanted.old_optimizers and generation.is_optimizer(name):
            return CurrentName(generation.old_optimizer(name), OPTIMIZERS)
        if is_tensorflow_1(name, wanted):
            return CurrentName(generation.version_1(name), TENSORFLOW_1)
        today = of_keras_2(name)
        return CurrentName(today, KERAS_3 if today != name else "")
    row = found.row
    if isinstance(row, Gone):
        return CurrentName("", NOTHING, row.advice)
    if isinstance(row, Name):
        return CurrentName(public(row) + found.tail(name), row.why)
    if row.old == contrib_names.ROOT:
        module = contrib_names.PACKAGE + canonical(name)[len(contrib_names.ROOT) :]
        known = module in CONTRIB_MODULES
        return CurrentName(module, row.why) if known else CurrentName("", NOTHING, BY_HAND)
    return _in_module(row, found.tail(name))


def current_modules(name: str, wanted: Generation) -> tuple[tuple[str, ...], str] | None:
    """Returns the modules that have the names of a module, and why; None if it is unchanged.

    Args:
        name: full name of the module.
        wanted: the generation that the program was written for.
    """
    found = tables.find(name)
    if found is not None and isinstance(found.row, Gone):
        return (), found.row.advice
    if found is not None and isinstance(found.row, Module):
        tail = found.tail(name)
        new = found.row.new if not tail else found.row.new[:1]
        if (
            found.row.old == contrib_names.ROOT
            and contrib_names.PACKAGE + tail not in CONTRIB_MODULES
        ):
            return (), BY_HAND
        return tuple(f"{module}{tail}" for module in new), found.row.why
    if is_tensorflow_1(name, wanted):
        return (generation.version_1(name),), TENSORFLOW_1
    if of_keras_2(name) != name:
        return (of_keras_2(name),), KERAS_3
    return None


def is_tensorflow_1(name: str, wanted: Generation) -> bool:
    """Returns whether a name is in `tensorflow` of a program for TensorFlow 1."""
    return wanted.tensorflow == 1 and generation.version_1(name) != name


def public(row: Name) -> str:
    """Returns the full name that a program imports, for `tensorflow.contrib` our package's.

    By `import`, TensorFlow has some of its modules a second time, with other classes.

    Args:
        row: the row of a name.
    """
    if is_below(row.old, contrib_names.ROOT):
        return contrib_names.PACKAGE + row.old[len(contrib_names.ROOT) :]
    return row.new


def _in_module(row: Module, tail: str) -> CurrentName:
    """Returns the full name of today for a name of a moved module."""
    if not tail:
        if len(row.new) == 1:
            return CurrentName(row.new[0], row.why)
        return CurrentName("", row.why, f"import what is used of it from {', '.join(row.new)}")
    inner, _, last = tail.rpartition(".")
    first = tail[1:].split(".")[0]
    for module in row.new:
        again = tables.NAMES.get(f"{module}{tail}")
        if again is not None:
            return CurrentName(again.new, row.why)
        if first in (sources.names_in(module) or ()):
            return CurrentName(f"{module}{tail}", row.why)
    if inner and last in (sources.names_in(f"{row.new[0]}{inner}") or ()):
        return CurrentName(f"{row.new[0]}{tail}", row.why)
    return CurrentName("", row.why, f"{', '.join(row.new)} has no {tail[1:]}: {BY_HAND}")


# --- Calls ---

# Functions of TensorFlow 1 that take a shape -> the place of the argument.
_SHAPES = {
    "tensorflow.TensorShape": 0,
    "tensorflow.get_variable": 1,
    "tensorflow.placeholder": 1,
}


def call_findings(subject: Subject) -> Iterator[Finding]:
    """Yields the changes to make in the calls and methods of a file.

    Args:
        subject: the file.
    """
    source = subject.file.source
    for call, reference in subject.uses.calls:
        yield from _of_keywords(call, reference, source)
        if subject.wanted.tensorflow == 1:
            yield from _of_shape(call, reference, source)
    for node in ast.walk(subject.file.tree):
        if isinstance(node, ast.Attribute) and node.attr in tables.METHODS:
            yield _of_method(node, tables.METHODS[node.attr], source)


def _of_keywords(call: ast.Call, reference: Reference, source: SourceText) -> Iterator[Finding]:
    """Finds arguments that a function no longer takes."""
    for number, keyword in enumerate(call.keywords):
        row = tables.KEYWORDS.get((reference.name, keyword.arg or ""))
        if row is None:
            continue
        edits: tuple[Edit, ...] = ()
        before = [*call.args, *(one.value for one in call.keywords[:number])]
        if before:
            start, end = max(source.end(node) for node in before), source.end(keyword.value)
            text = source.content[start:end]
            if b"#" not in text and text.lstrip().startswith(b","):
                edits = (Edit(start, end, ""),)
        what = f"{row.function}({keyword.arg}=...)"
        yield Finding(call.lineno, what, "leave the argument out", row.why, edits)


def _of_shape(call: ast.Call, reference: Reference, source: SourceText) -> Iterator[Finding]:
    """Finds divisions in shapes, which make floats."""
    position = _SHAPES.get(canonical(reference.name))
    if position is None:
        return
    given = [keyword.value for keyword in call.keywords if keyword.arg == "shape"]
    given += call.args[position : position + 1]
    for shape in given:
        if isinstance(shape, (ast.List, ast.Tuple)):
            for dimension in shape.elts:
                if isinstance(dimension, ast.BinOp) and isinstance(dimension.op, ast.Div):
                    yield _of_division(dimension, source)


def _of_division(node: ast.BinOp, source: SourceText) -> Finding:
    start, end = source.end(node.left), source.start(node.right)
    between = source.content[start:end]
    edits: tuple[Edit, ...] = ()
    if b"#" not in between and b"/" in between:
        position = start + between.index(b"/")
        edits = (Edit(position, position + 1, "//"),)
    new = f"{source.text(node.left)} // {source.text(node.right)}"
    what = source.text(node)
    return Finding(node.lineno, what, new, "a dimension must be an integer", edits)


def _of_method(node: ast.Attribute, row: Method, source: SourceText) -> Finding:
    """Finds a method with another name."""
    what = f".{row.old}"
    if not is_below(row.new, row.owner):
        return Finding(node.lineno, what, f"leave out `{what}`", row.why, ())
    name = row.new.rpartition(".")[2]
    end = source.end(node)
    edit = Edit(end - len(row.old.encode()), end, name)
    return Finding(node.lineno, what, f".{name}", row.why, (edit,))


# --- Dataclass defaults ---

_DECORATOR, _FIELD = "dataclasses.dataclass", "dataclasses.field"


_WHY = "an instance that cannot be hashed is no default since Python 3.11"


class DefaultRewrites:
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
        alias = next(
            a for a, (_, t) in zip(statement.names, bindings.targets(statement)) if t == _DECORATOR
        )
        name = "field"
        while name in self._uses.names:
            name += "_"
        end = self._source.end(alias)
        added = "field" if name == "field" else f"field as {name}"
        return name, (Edit(end, end, f", {added}"),)


# --- Imports ---

_VERSION_1 = "tensorflow.compat.v1"


class ImportRewrites:
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
        new, why, advice = target(name, self._wanted)
        if name == _VERSION_1 and self._wanted.tensorflow == 1:
            return self._turned_on(_written(statement, alias), alias.asname or alias.name)
        if new == name:
            return [_written(statement, alias)], "", ""
        if advice:
            return [], why, advice
        parts = [import_from(new, alias.asname or alias.name)]
        if is_tensorflow_1(name, self._wanted) and self._is_first(statement, alias):
            base = import_from("tensorflow.compat.v1.disable_v2_behavior", "disable_v2_behavior")
            parts += [base, "disable_v2_behavior()"]
        return parts, why, ""

    def _new_star(self, statement: ast.ImportFrom, alias: ast.alias) -> tuple[list[str], str, str]:
        """Returns the new lines for `from module import *`."""
        module = statement.module or ""
        new = current_modules(module, self._wanted)
        if new is None:
            return [_written(statement, alias)], "", ""
        if len(new[0]) != 1:
            return [], new[1], f"import the names from {', '.join(new[0])}"
        return [f"from {new[0][0]} import *"], new[1], ""

    def _new_module(self, alias: ast.alias) -> tuple[list[str], str, str]:
        """Returns the new lines for `import module as name`."""
        old = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        new = current_modules(alias.name, self._wanted)
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
        return [statement, f"{name}.disable_v2_behavior()"], TENSORFLOW_1, ""

    def _is_first(self, statement: ast.ImportFrom, alias: ast.alias) -> bool:
        """Returns whether an import is the file's first of TensorFlow 1: it enables that."""
        for other in self._uses.imports:
            for one in other.names:
                name = one.name
                if isinstance(other, ast.ImportFrom):
                    name = f"{other.module}.{one.name}"
                if not getattr(other, "level", 0) and is_tensorflow_1(name, self._wanted):
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


# --- Uses of imported names ---

# The same module by a name that new names begin with.
_SAME_AS = {KERAS_2: "tensorflow.keras"}


class UseRewrites:
    """Changes to make in the uses of imported names of a file.

    Args:
        subject: the file.
    """

    def __init__(self, subject: Subject) -> None:
        self._file, self._source = subject.file, subject.file.source
        self._uses, self._wanted = subject.uses, subject.wanted
        # Modules that are imported anew, with the import after which that is, and the name.
        self._added: dict[str, list[tuple[Import, str]]] = {}

    def findings(self, reference: Reference) -> Iterator[Finding]:
        """Yields the changes to make in a use of an imported name."""
        bound = reference.binding.target
        found = tables.find(reference.name)
        if found is None or isinstance(found.row, Module) and is_below(bound, found.row.old):
            yield from self._of_optimizer(reference)
            return
        row, rest = found.row, found.rest
        old = reference.name if not rest else ".".join(reference.name.split(".")[:-rest])
        if len(old) <= len(bound) or canonical(bound) == row.old:
            return  # the change is in the import
        if is_below(canonical(bound), contrib_names.ROOT) and not isinstance(row, Gone):
            return  # Its module is imported from our package, which has the name.
        node = reference.node(rest)
        if (
            isinstance(row, Gone)
            or is_below(row.old, contrib_names.ROOT)
            and isinstance(row, Module)
        ):
            yield from self._of_contrib(reference, row)
            return
        if isinstance(row, Name):
            yield self._exchange(reference, node, row.new, row.why, public(row))
            return
        # A moved module is followed as far as the name of today.
        new, why, advice = target(reference.name, self._wanted)
        node = reference.nodes[-1]
        if advice:
            yield Finding(node.lineno, self._source.text(node), advice, why, ())
        else:
            yield self._exchange(reference, node, new, why)

    def _of_contrib(self, reference: Reference, row: Gone | Module) -> Iterator[Finding]:
        """Finds the change of a use of `tf.contrib` that is no function of the table."""
        node = reference.nodes[-1]
        name = canonical(reference.name)
        module = contrib_names.PACKAGE + name[len(contrib_names.ROOT) :]
        if isinstance(row, Module) and row.old != contrib_names.ROOT:
            new = name.replace(row.old, row.new[0], 1)
            yield self._exchange(reference, node, new, row.why)
        elif isinstance(row, Module) and module in CONTRIB_MODULES:
            yield self._exchange(reference, node, module, row.why)
        else:
            advice = row.advice if isinstance(row, Gone) else BY_HAND
            what = self._source.text(node)
            yield Finding(node.lineno, what, advice, NOTHING, ())

    def _of_optimizer(self, reference: Reference) -> Iterator[Finding]:
        """Finds the change of an optimizer that was another class in TensorFlow 2.6."""
        name, bound = reference.name, reference.binding.target
        if not self._wanted.old_optimizers or not generation.is_optimizer(name):
            return
        if not generation.is_optimizer(bound):
            new = generation.old_optimizer(name)
            yield self._exchange(reference, reference.nodes[-1], new, OPTIMIZERS)

    def _exchange(
        self, reference: Reference, node: ast.expr, new: str, why: str, imported: str = ""
    ) -> Finding:
        """Returns the change of an expression to a full name of today.

        Args:
            reference: the reference of the expression.
            node: the expression.
            new: the full name.
            why: the reason.
            imported: the full name to import, where no module of the file has the other.
        """
        edits: tuple[Edit, ...] = ()
        text = self._by_modules(reference.nodes[0], reference.binding, new)
        if not text:
            text, edits = self._by_import(imported or new, reference.binding.statement, node.lineno)
        source = self._source
        old = "".join(source.text(node).split())
        edits = (Edit(source.start(node), source.end(node), text), *edits)
        return Finding(node.lineno, old, text, why, () if "#" in source.text(node) else edits)

    def _by_modules(self, root: ast.expr, binding: NameBinding, new: str) -> str:
        """Returns a full name by the file's own imports; empty if they do not reach it."""
        if new.startswith("builtins."):
            return new[len("builtins.") :]
        own = (self._source.text(root), self._today(binding.target))
        for name, module in (own, *self._top(root.lineno)):
            for base in (module, _SAME_AS.get(module, module)):
                # TensorFlow does not show its code as an attribute.
                if base == "tensorflow" and is_below(new, "tensorflow.python"):
                    continue
                if is_below(new, base) and new != base and base != "tensorflow_ipu":
                    return name + new[len(base) :]
        return ""

    def _by_import(self, new: str, statement: Import, line: int) -> tuple[str, tuple[Edit, ...]]:
        """Returns a full name by an import of its own."""
        if new in CONTRIB_MODULES:
            return self._import(new, statement, line)
        module, _, name = new.rpartition(".")
        local, edits = self._import(module, statement, line)
        return f"{local}.{name}", edits

    def _today(self, module: str) -> str:
        return generation.today(module, self._wanted)

    def _top(self, line: int) -> Iterator[tuple[str, str]]:
        """Yields the names of modules that are imported above a line for all of the file."""
        for name, binding in self._uses.top.items():
            if isinstance(binding.statement, ast.Import) and binding.statement.lineno < line:
                yield name, self._today(binding.target)

    def _import(self, module: str, statement: Import, line: int) -> tuple[str, tuple[Edit, ...]]:
        """Returns the name of a module at a line, and the edits that import it."""
        added = self._added.setdefault(module, [])
        for other, local in added:
            if other is statement or (other in self._file.tree.body and other.lineno < line):
                return local, ()
        local = self._new_name(module)
        added.append((statement, local))
        return local, (self._after(statement, import_as(module, local)),)

    def _new_name(self, module: str) -> str:
        """Returns a name for a module that this file does not use."""
        parts = module.split(".")
        local = "_".join(parts[-2:]).replace("replacements_", "compat_")
        taken = {name for added in self._added.values() for _, name in added}
        known = {name for _, name in self._added.get(module, [])}
        while local in self._uses.names or (local in taken and local not in known):
            local += "_"
        return local

    def _after(self, statement: Import, line: str) -> Edit:
        """Returns the change that adds a statement after an import."""
        source, indentation = self._source, self._source.indentation(statement)
        if indentation is not None and source.is_alone(statement):
            position = source.line_end(statement)
            return Edit(position, position, source.newline + indentation + line)
        position = source.end(statement)
        return Edit(position, position, f"; {line}")


# --- Files ---


def read(path: Path) -> File:
    """Reads a file.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no Python 3, or not in UTF-8.
    """
    content, tree = sources.parse(path)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not in UTF-8: convert it first") from None
    return File(path, SourceText(content), tree)


def written_for(files: Sequence[File]) -> Generation:
    """Returns the generation that the program of some files was written for."""
    return generation.of_program(file.tree for file in files)


def findings(file: File, wanted: Generation) -> list[Finding]:
    """Returns the changes to make in a file, in the order of its lines.

    Args:
        file: the file.
        wanted: the generation that its program was written for.
    """
    subject = Subject(file, bindings.uses(file.tree), wanted)
    imports, uses = ImportRewrites(subject), UseRewrites(subject)
    found = [one for statement in subject.uses.imports for one in imports.findings(statement)]
    found += [one for reference in subject.uses.references for one in uses.findings(reference)]
    found += call_findings(subject)
    found += DefaultRewrites(subject).findings()
    return sorted(found, key=lambda finding: finding.line)


def rewritten(file: File, found: Sequence[Finding]) -> bytes:
    """Returns a file with the changes that need no judgement.

    Args:
        file: the file.
        found: the findings in it.
    """
    return file.source.applied(edit for finding in found for edit in finding.edits)
