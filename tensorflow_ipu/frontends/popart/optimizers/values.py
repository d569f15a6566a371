"""`OptimizerValue` and `OptimizerValueMap`: numbers that are compiled in, or can change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorflow_ipu.frontends.popart.errors import popart_exception


class OptimizerValue:
    """A number of an optimizer, and whether it never changes."""

    def __init__(self, val: Any = None, isConst: bool | None = None) -> None:
        """Takes the number.

        Args:
            val: the number, or a pair of it and `isConst`; 0 that can change by default.
            isConst: whether it never changes; True by default, if there is a number.
        """
        if isinstance(val, tuple):
            val, isConst = val
        if val is None:
            val, isConst = 0.0, False
        self._value = float(val)
        self._is_const = True if isConst is None else bool(isConst)

    def __repr__(self) -> str:
        return f"OptimizerValue({self._value}, {self._is_const})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptimizerValue) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._value, self._is_const))

    def val(self) -> float:
        """Returns the number."""
        return self._value

    def isConst(self) -> bool:
        """Returns whether it never changes."""
        return self._is_const


class OptimizerValueMap:
    """A number of an optimizer: that of all weights, and those of some."""

    def __init__(
        self, default: OptimizerValue, specific: Mapping[str, OptimizerValue] | None = None
    ) -> None:
        """Takes the numbers.

        Args:
            default: that of all weights.
            specific: those of some, by weight.
        """
        self._default = default
        self._specific = dict(specific or {})

    def __repr__(self) -> str:
        return f"OptimizerValueMap[{self._default}, {len(self._specific)} specific]"

    def getDefault(self) -> OptimizerValue:
        """Returns the number of all weights that have none of their own."""
        return self._default

    def get(self, weight: str) -> OptimizerValue:
        """Returns the number of a weight.

        Args:
            weight: its id.
        """
        return self._specific.get(weight, self._default)

    @property
    def specific(self) -> Mapping[str, OptimizerValue]:
        """The numbers of weights that have one of their own."""
        return self._specific


def pair(key: Any, value: Any) -> OptimizerValue:
    """Returns the number of an entry of a dict that a user passes.

    Args:
        key: its name.
        value: a pair: the number, and whether it never changes.

    Raises:
        popart_exception: If the name is no text, or the value is no pair.
    """
    if not isinstance(key, str):
        raise popart_exception(f"A key of an optimizer must be a py::str. Received: {key!r}")
    if not isinstance(value, tuple) or len(value) != 2:
        raise popart_exception(
            f"The value of {key} must be a py::tuple (number, isConst). Received: {value!r}"
        )
    return OptimizerValue(*value)
