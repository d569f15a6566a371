"""Rewrites of calls for migration: arguments, shapes and methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tensorflow_ipu.compat import tables
from tensorflow_ipu.compat.bindings import Reference
from tensorflow_ipu.compat.edits import Edit, SourceText
from tensorflow_ipu.compat.findings import Finding, Subject
from tensorflow_ipu.compat.rows import Method, canonical, is_below

# Functions of TensorFlow 1 that take a shape -> the place of the argument.
_SHAPES = {
    "tensorflow.TensorShape": 0,
    "tensorflow.get_variable": 1,
    "tensorflow.placeholder": 1,
}


def findings(subject: Subject) -> Iterator[Finding]:
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
