"""`initializePoplarDebugInfo`: a file of what made the ops and tensors of programs."""

from __future__ import annotations

from tensorflow_ipu.frontends.common import debug_contexts
from tensorflow_ipu.frontends.popart.errors import popart_exception


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:  # noqa: A002
    """Begins a file of contexts of debug information; `closePoplarDebugInfo` writes it.

    Args:
        filename: the file.
        format: "json".

    Raises:
        popart_exception: If the format is another.
    """
    if format != "json":
        raise popart_exception(
            f"Unknown format of debug information: {format}. Supported is json (cbor is not)."
        )
    debug_contexts.begin(filename)


def closePoplarDebugInfo() -> None:
    """Writes the file that `initializePoplarDebugInfo` began; nothing happens without one.

    Raises:
        OSError: If it cannot be written.
    """
    debug_contexts.finish()
