"""Tables of names of TensorFlow 1.15 and 2.6 that moved or are gone.

One module has the rows of one subject. A new row needs nothing else: `tensorflow-ipu run`,
`tensorflow-ipu migrate` and the tests read the tables. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from tensorflow_ipu.compat.rows import (
    KERAS_2,
    Gone,
    Keyword,
    Method,
    Module,
    Name,
    canonical,
    parents,
)
from tensorflow_ipu.compat.tables import contrib_names, keras, libraries

#: A row that is looked up by its name.
Row = Union[Name, Module, Gone]

NAMES = {
    row.old: row
    for table in (
        libraries.PYTHON_NAMES,
        libraries.NUMPY_NAMES,
        keras.NAMES,
        libraries.TENSORFLOW_NAMES,
        contrib_names.NAMES,
    )
    for row in table
}
MODULES = {
    row.old: row
    for table in (keras.MODULES, libraries.MODULES, contrib_names.MODULES)
    for row in table
}
GONE = {row.old: row for table in (libraries.GONE, contrib_names.GONE) for row in table}
KEYWORDS = {(row.function, row.old): row for row in libraries.KEYWORDS}
METHODS = {
    row.old: row
    for table in (libraries.PYTHON_METHODS, libraries.TENSORFLOW_METHODS)
    for row in table
}


class Found(NamedTuple):
    """A row, and the number of name parts that it matches.

    Args:
        row: the row.
        rest: number of parts at the end of the name below `row.old`.
    """

    row: Row
    rest: int

    def tail(self, name: str) -> str:
        """Returns the end of the name that is below the row's, with a dot before it."""
        parts = name.split(".")
        return "".join(f".{part}" for part in parts[len(parts) - self.rest :])


def find(name: str) -> Found | None:
    """Finds the most specific row for a full name of a program.

    Args:
        name: full name; aliases in TensorFlow and Keras count as one name.

    Returns:
        The row, or None if the name is unchanged.
    """
    for rest, parent in enumerate(parents(canonical(name))):
        row = NAMES.get(parent) or GONE.get(parent) or MODULES.get(parent)
        if row is not None:
            return Found(row, rest)
    return None


def packages() -> frozenset[str]:
    """Returns the first parts of all names in the tables."""
    rows = [*NAMES, *MODULES, *GONE, *(function for function, _ in KEYWORDS)]
    owners = [row.owner for row in METHODS.values()]
    return frozenset(name.split(".")[0] for name in (*rows, *owners)) | {"keras", KERAS_2}


__all__ = ["GONE", "KEYWORDS", "METHODS", "MODULES", "NAMES", "Found", "Keyword", "Method", "find"]
