"""Row types of the tables for older programs, and the lookup of names in them.

A name is written in full, as if every import was one of a whole module: `tf.contrib.rnn` in a
program with `import tensorflow as tf` is `tensorflow.contrib.rnn`. TensorFlow and Keras show the
same module under several names; rows have one of them (see `canonical`).
"""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_ipu.import_hook.versions import legacy_keras


class Name(NamedTuple):
    """A function, class or constant with another full name or meaning now.

    Args:
        old: its full name in programs.
        new: the full name of the replacement; `builtins.` for names that need no import.
        why: the reason.
    """

    old: str
    new: str
    why: str


class Module(NamedTuple):
    """A module with another name now, and all names below it.

    Args:
        old: its full name in programs.
        new: the modules that have its names now; the first is searched first.
        why: the reason.
    """

    old: str
    new: tuple[str, ...]
    why: str


class Keyword(NamedTuple):
    """An argument that a function no longer takes, and that can be left out.

    Args:
        function: full name of the function.
        old: name of the argument.
        why: the reason.
    """

    function: str
    old: str
    why: str


class Method(NamedTuple):
    """A method with another name now.

    Args:
        owner: full name of the class.
        old: name of the method in programs; no class has a method of this name now.
        new: full name of the method or property now. A method of another class cannot be written
            into a program instead.
        why: the reason.
    """

    owner: str
    old: str
    new: str
    why: str


class Gone(NamedTuple):
    """A name without a replacement, and all names below it.

    Args:
        old: its full name in programs.
        advice: an instruction for the user.
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
    """Returns a name of Keras in the package that has Keras 2 today; other names unchanged.

    Args:
        name: full name, such as `keras.layers.Dense`.
    """
    return KERAS_2 + name[len("keras") :] if is_below(name, "keras") else name


def is_below(name: str, parent: str) -> bool:
    """Returns whether a full name is `parent` or below it."""
    return name == parent or name.startswith(parent + ".")


def parents(name: str) -> list[str]:
    """Returns a full name and its prefixes, the longest first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
