"""Reader of zip archives that may be damaged, truncated or foreign."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

# Errors from reading a damaged archive, or a file that is none. Errors of the disk are others.
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),  # the archive and its compression
    *(KeyError, NotImplementedError, RuntimeError),  # members missing, of unknown form, encrypted
    *(ValueError, TypeError, AttributeError, OverflowError, MemoryError),  # from members
)
# Descriptions and indices are far smaller; more is no description, and would only fill memory.
_LARGEST_JSON = 1 << 26


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[zipfile.ZipFile]:
    """Opens an archive for reading.

    Args:
        path: the file.
        what: expected content, such as `a file of tensors`, for the error.

    Yields:
        The archive. The block reads and checks its content, and does nothing else.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is of another kind, or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _DAMAGES as error:
        raise _refusal(path, what, error) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a position that the archive names is not in the file
            raise _refusal(path, what, error) from error
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _refusal(path: str | os.PathLike[str], what: str, error: Exception) -> ValueError:
    """Returns the error for a file of another kind, or a damaged one."""
    text = str(error) or type(error).__name__
    return ValueError(f"{os.fspath(path)} is not {what}, or is damaged: {text}")


def read_json(archive: zipfile.ZipFile, member: str) -> dict[str, Any]:
    """Returns the JSON object in a member of an archive.

    Args:
        archive: the archive, open in `reading`.
        member: name of the member.

    Raises:
        ValueError: it is no JSON object.
    """
    if archive.getinfo(member).file_size > _LARGEST_JSON:
        raise ValueError(f"{member} is larger than {_LARGEST_JSON} bytes")
    data = json.loads(archive.read(member))
    if not isinstance(data, dict):
        raise ValueError(f"{member} is no JSON object")
    return data
