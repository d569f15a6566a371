"""Rewrites of uses of imported names for migration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tensorflow_ipu.compat import generation, tables, targets
from tensorflow_ipu.compat.bindings import Import, NameBinding, Reference
from tensorflow_ipu.compat.edits import Edit
from tensorflow_ipu.compat.findings import Finding, Subject
from tensorflow_ipu.compat.import_mends import import_as
from tensorflow_ipu.compat.rows import KERAS_2, Gone, Module, Name, canonical, is_below
from tensorflow_ipu.compat.tables import contrib

# The same module by a name that new names begin with.
_SAME_AS = {KERAS_2: "tensorflow.keras"}


class UseMends:
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
        if is_below(canonical(bound), contrib.ROOT) and not isinstance(row, Gone):
            return  # Its module is imported from our package, which has the name.
        node = reference.node(rest)
        if isinstance(row, Gone) or is_below(row.old, contrib.ROOT) and isinstance(row, Module):
            yield from self._of_contrib(reference, row)
            return
        if isinstance(row, Name):
            yield self._exchange(reference, node, row.new, row.why, targets.public(row))
            return
        # A moved module is followed as far as the name of today.
        new, why, advice = targets.target(reference.name, self._wanted)
        node = reference.nodes[-1]
        if advice:
            yield Finding(node.lineno, self._source.text(node), advice, why, ())
        else:
            yield self._exchange(reference, node, new, why)

    def _of_contrib(self, reference: Reference, row: Gone | Module) -> Iterator[Finding]:
        """Finds the change of a use of `tf.contrib` that is no function of the table."""
        node = reference.nodes[-1]
        name = canonical(reference.name)
        module = contrib.PACKAGE + name[len(contrib.ROOT) :]
        if isinstance(row, Module) and row.old != contrib.ROOT:
            new = name.replace(row.old, row.new[0], 1)
            yield self._exchange(reference, node, new, row.why)
        elif isinstance(row, Module) and module in targets.CONTRIB_MODULES:
            yield self._exchange(reference, node, module, row.why)
        else:
            advice = row.advice if isinstance(row, Gone) else targets.BY_HAND
            what = self._source.text(node)
            yield Finding(node.lineno, what, advice, targets.NOTHING, ())

    def _of_optimizer(self, reference: Reference) -> Iterator[Finding]:
        """Finds the change of an optimizer that was another class in TensorFlow 2.6."""
        name, bound = reference.name, reference.binding.target
        if not self._wanted.old_optimizers or not generation.is_optimizer(name):
            return
        if not generation.is_optimizer(bound):
            new = generation.old_optimizer(name)
            yield self._exchange(reference, reference.nodes[-1], new, targets.OPTIMIZERS)

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
        if new in targets.CONTRIB_MODULES:
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
