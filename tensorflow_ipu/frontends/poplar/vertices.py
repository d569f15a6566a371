"""The vertex classes of a compiled codelet, from its debug information.

A vertex is a class that derives from one of Poplar's and has `compute`. Instances of templates are
classes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elftools.elf.elffile import ELFFile

#: Classes that vertices derive from.
BASES = ("Vertex", "MultiVertex", "SupervisorVertex", "SupervisorVertexIf<true>")

#: Templates of fields. Others than these and numbers cannot be fields.
_FIELDS = ("Input<", "Output<", "InOut<", "Vector<")

_CLASSES = ("DW_TAG_class_type", "DW_TAG_structure_type")

#: Namespaces of the compiler's library, which has no vertices.
_FOREIGN = ("std", "__gnu_cxx", "__cxxabiv1")


class Vertex(NamedTuple):
    """A vertex class.

    Args:
        name: its qualified name, as C++ writes it.
        fields: the names of its fields, those of bases first.
    """

    name: str
    fields: tuple[str, ...]


class UnsupportedField(Exception):
    """A field of a type that no vertex can have."""


def vertices(path: Path) -> list[Vertex]:
    """Returns the vertices of an object file with debug information.

    Args:
        path: the file.

    Raises:
        UnsupportedField: if a field is a pointer, an array or an object.
    """
    with path.open("rb") as file:
        information = ELFFile(file).get_dwarf_info()
        found: dict[str, Vertex] = {}
        for unit in information.iter_CUs():
            for name, die in _classes(unit.get_top_DIE(), ""):
                if name not in found and _is_vertex(die):
                    found[name] = Vertex(name, tuple(_fields(die, name)))
        return list(found.values())


def _name(die: Any) -> str:
    """Returns the name of a piece of debug information; empty where it has none."""
    attribute = die.attributes.get("DW_AT_name")
    return attribute.value.decode() if attribute else ""


def _classes(die: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yields the defined classes below a namespace or class, with their qualified names."""
    for child in die.iter_children():
        name = _name(child)
        if child.tag == "DW_TAG_namespace":
            if name and name not in _FOREIGN and not (not prefix and name == "poplar"):
                yield from _classes(child, f"{prefix}{name}::")
        elif child.tag in _CLASSES and name and "DW_AT_declaration" not in child.attributes:
            yield prefix + name, child
            yield from _classes(child, f"{prefix}{name}::")


def _target(die: Any) -> Any:
    """Returns the type behind a member or base, without `const` and typedefs."""
    while True:
        die = die.get_DIE_from_attribute("DW_AT_type")
        if die.tag not in ("DW_TAG_const_type", "DW_TAG_typedef", "DW_TAG_volatile_type"):
            return die


def _bases(die: Any) -> Iterator[Any]:
    """Yields the classes that a class derives from."""
    for child in die.iter_children():
        if child.tag == "DW_TAG_inheritance":
            yield _target(child)


def _derives(die: Any) -> bool:
    """Returns whether a class is, or derives from, one of Poplar's classes of vertices."""
    return _name(die) in BASES or any(_derives(base) for base in _bases(die))


def _computes(die: Any) -> bool:
    """Returns whether a class has `compute`, or inherits it."""
    own = any(
        child.tag == "DW_TAG_subprogram" and _name(child) == "compute"
        for child in die.iter_children()
    )
    return own or any(_computes(base) for base in _bases(die))


def _is_vertex(die: Any) -> bool:
    return any(_derives(base) for base in _bases(die)) and _computes(die)


def _fields(die: Any, vertex: str) -> Iterator[str]:
    """Yields the names of the fields of a class."""
    for base in _bases(die):
        yield from _fields(base, vertex)
    for child in die.iter_children():
        is_static = "DW_AT_external" in child.attributes
        if child.tag != "DW_TAG_member" or is_static or not _name(child):
            continue
        kind = _target(child)
        fits = kind.tag in ("DW_TAG_base_type", "DW_TAG_enumeration_type") or _name(
            kind
        ).startswith(_FIELDS)
        if not fits and _name(kind) != "quarter":
            raise UnsupportedField(
                f"Field '{vertex}.{_name(child)}' has unsupported field type '{_type_text(kind)}'"
            )
        yield _name(child)


def _type_text(die: Any) -> str:
    """Returns a type as C++ writes it."""
    if die.tag == "DW_TAG_pointer_type":
        inner = _type_text(_target(die)) if "DW_AT_type" in die.attributes else "void"
        return f"{inner} *"
    if die.tag == "DW_TAG_array_type":
        return f"{_type_text(_target(die))} []"
    return _name(die) or die.tag
