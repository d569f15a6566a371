"""Row types of the tables for older programs, and the lookup of names in them.

A name is written in full, as if every import was one of a whole module: `tf.contrib.rnn` in a
program with `import tensorflow as tf` is `tensorflow.contrib.rnn`. TensorFlow and Keras show the
same module under several names; rows have one of them (see `canonical`).
"""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_ipu.versions import legacy_keras


class Name(NamedTuple):
    """A function, class or constant that is elsewhere now, or whose meaning is.

    Args:
        old: its full name in programs.
        new: the full name of what takes its place; `builtins.` for what needs no import.
        why: what has become of it.
    """

    old: str
    new: str
    why: str


class Module(NamedTuple):
    """A module that is elsewhere now, with all that is below it.

    Args:
        old: its full name in programs.
        new: the modules that have its names now; the first is searched first.
        why: what has become of it.
    """

    old: str
    new: tuple[str, ...]
    why: str


class Keyword(NamedTuple):
    """An argument that a function does not take any more, and that can be left out.

    Args:
        function: full name of the function.
        old: name of the argument.
        why: what has become of it.
    """

    function: str
    old: str
    why: str


class Method(NamedTuple):
    """A method with another name now.

    Args:
        owner: full name of the class.
        old: name of the method in programs; no class has a method of this name now.
        new: full name of the method or property now. One that is not of `owner` cannot be written
            into a program in its place.
        why: what has become of it.
    """

    owner: str
    old: str
    new: str
    why: str


class Gone(NamedTuple):
    """A name, with all that is below it, that nothing takes the place of.

    Args:
        old: its full name in programs.
        advice: what to do.
    """

    old: str
    advice: str


#: Other names of modules -> the one in the tables. The longest comes first.
_SAME = (
    ("tensorflow.compat.v1", "tensorflow"),
    ("tensorflow.compat.v2", "tensorflow"),
    ("tensorflow_core", "tensorflow"),
    ("keras", "tensorflow.keras"),
    ("tf_keras", "tensorflow.keras"),
)

#: The package that has Keras 2, which programs for older TensorFlow mean by `keras`.
KERAS_2 = legacy_keras.package()


def canonical(name: str) -> str:
    """Returns the name that the tables have for a name of a program.

    Args:
        name: full name.
    """
    if is_below(name, "keras.src") or is_below(name, "tf_keras.src"):
        return of_keras_2(name)
    for other, table in _SAME:
        if is_below(name, other):
            return table + name[len(other) :]
    return name


def of_keras_2(name: str) -> str:
    """Returns a name of Keras by the package that has Keras 2 today; others as they are.

    Args:
        name: full name, such as `keras.layers.Dense`.
    """
    return KERAS_2 + name[len("keras") :] if is_below(name, "keras") else name


def is_below(name: str, parent: str) -> bool:
    """Returns whether a full name is `parent` or something in it."""
    return name == parent or name.startswith(parent + ".")


def parents(name: str) -> list[str]:
    """Returns a full name and those of what it is in, the longest first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
