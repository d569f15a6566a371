"""`initializePoplarDebugInfo`: a file with the lines that made the nodes of models."""

from __future__ import annotations

import json

from tensorflow_ipu import private_files
from tensorflow_ipu.frontends.popart.debugging import context
from tensorflow_ipu.frontends.popart.errors import popart_exception

# The file to write when it is closed, if there is one.
_open: list[str] = []


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:  # noqa: A002
    """Begins a file with the lines of nodes; `closePoplarDebugInfo` writes it.

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
    _open[:] = [filename]


def closePoplarDebugInfo() -> None:
    """Writes the file that `initializePoplarDebugInfo` began; nothing happens without one.

    Raises:
        OSError: If it cannot be written.
    """
    if not _open:
        return
    contexts = [
        {
            "id": number,
            "location": {
                "fileName": line.fileName,
                "lineNumber": line.lineNumber,
                "functionName": line.functionName,
            },
        }
        for number, line in context.all_lines().items()
    ]
    private_files.write_text(_open.pop(), json.dumps({"contexts": contexts}))
