"""Raw ops of the original: the public modules `gen_*_ops`, and errors for the names they lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorflow_ipu.import_hook import tables


def missing_in(module: str, known: Sequence[str], public: str) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a module of raw ops.

    Args:
        module: its name below `tensorflow.compiler.plugin.poplar.ops`.
        known: the ops that it has.
        public: the public modules that have functions for all of its ops.
    """

    def get_attribute(name: str) -> Any:
        raise AttributeError(
            f"tensorflow_ipu has no {tables.POPLAR}.ops.{module}.{name}: raw ops were internal to "
            f"the original, and of this module there are {', '.join(known)}. Public functions "
            f"for all of them are in {public}."
        )

    return get_attribute
