"""Today's names for names of an older program, found without importing them."""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_ipu.compat import generation, sources, tables
from tensorflow_ipu.compat.generation import Generation
from tensorflow_ipu.compat.rows import Gone, Module, Name, canonical, is_below, of_keras_2
from tensorflow_ipu.compat.tables import contrib

#: Why something is to be changed, where no row of a table says it.
TENSORFLOW_1 = "the program uses names of TensorFlow 1"
OPTIMIZERS = "another class since Keras 2.11, and the program relies on the old one"
KERAS_3 = "keras is Keras 3 since TensorFlow 2.16"
NOTHING = "nothing takes its place"
#: Advice for this case.
BY_HAND = "find what takes its place"

#: The modules of `tensorflow_ipu.compat.contrib`.
CONTRIB_MODULES = frozenset(
    (contrib.PACKAGE, *(f"{contrib.PACKAGE}.{name}" for name in (*contrib.TABLE, "compiler")))
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
    if row.old == contrib.ROOT:
        module = contrib.PACKAGE + canonical(name)[len(contrib.ROOT) :]
        known = module in CONTRIB_MODULES
        return CurrentName(module, row.why) if known else CurrentName("", NOTHING, BY_HAND)
    return _in_module(row, found.tail(name))


def modules(name: str, wanted: Generation) -> tuple[tuple[str, ...], str] | None:
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
        if found.row.old == contrib.ROOT and contrib.PACKAGE + tail not in CONTRIB_MODULES:
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
    if is_below(row.old, contrib.ROOT):
        return contrib.PACKAGE + row.old[len(contrib.ROOT) :]
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
