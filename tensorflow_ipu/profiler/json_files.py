"""Reader of JSON files that may be damaged or foreign."""

from __future__ import annotations

import json
import os
from typing import Any, Union

FilePath = Union[str, "os.PathLike[str]"]

# Far beyond all reports; devices such as /dev/zero never end.
_LARGEST = 1 << 30


def read(path: FilePath, what: str, advice: str) -> Any:
    """Returns the data in a file of JSON.

    Args:
        path: the file.
        what: expected content, such as `a report of tensorflow_ipu`.
        advice: advice for the user if it is not.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JSON.
    """
    with open(path, "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{os.fspath(path)} is not {what}: it has more than {_LARGEST} bytes.")
    try:
        return json.loads(content, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{os.fspath(path)} is not {what}: it is not JSON ({error}). {advice}"
        ) from error


def _constant(text: str) -> float:
    """Raises for NaN and infinities, which Python reads as numbers and JSON does not have."""
    raise ValueError(f"{text} is no number")
