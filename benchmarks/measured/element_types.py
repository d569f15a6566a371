"""Element types that a row names: of operands and of partial sums."""

from __future__ import annotations

import re

from .rows import NotExpressible, Row

_DTYPES = {
    **dict.fromkeys(("fp16", "half", "float16"), "float16"),
    **dict.fromkeys(("fp32", "float", "float32", "single"), "float32"),
}
_NAME = r"\b(fp16|fp32|half|float16|float32|float|single)\b"
_PARTIALS = re.compile(_NAME + r" partials?\b|\bpartials(?: type)?=" + _NAME)
_LACKING = ("fp8", "quarter", "int8")


def types_of(row: Row, partials: str = "") -> tuple[str, str]:
    """Returns the types of operands and of partial sums.

    Args:
        row: names them in its workload or parameters.
        partials: type of the sums of float16 products if the row names none; empty for the type of
            the operands.

    Returns:
        Names such as `float16`. Operands that no word names have the type of the sums.

    Raises:
        NotExpressible: the matrix unit lacks the type.
    """
    if any(word in row.text for word in _LACKING):
        raise NotExpressible("a type that the matrix unit of these chips lacks")
    found = _PARTIALS.search(row.text)
    sums = _DTYPES[found[1] or found[2]] if found else None
    named = re.search(_NAME, _PARTIALS.sub(" ", row.text))
    operands = _DTYPES[named[1]] if named else sums or "float32"
    given = row.parameters.get("dtype", "").lower().split(" ")[0]
    if given and given not in _DTYPES:
        raise NotExpressible("a type that the matrix unit of these chips lacks")
    operands = _DTYPES.get(given, operands)
    if operands == "float16":
        return operands, sums or partials or operands
    return operands, operands if sums is None else sums


def dtype_of(text: str) -> str | None:
    """Returns the element type of a word such as `fp16`; None for any other word.

    Args:
        text: the word.
    """
    return _DTYPES.get(text.strip().lower())
