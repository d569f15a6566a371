"""Writes files: readable by the user only, and whole or not at all.

Everything that is saved is written here. A file is written beside its place under a name of its
own, and moved there when it is complete: a reader sees the old file or the new one, and after an
error the old one is still there. Files have the mode 0600 and folders that are made 0700, so what
lies in a shared place is not shown to other users.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Union

from tensorflow_ipu.configs.notices import warn_once

FilePath = Union[str, "os.PathLike[str]"]

#: Ends the name of a file that is being written.
PARTIAL_SUFFIX = ".partial"

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
# Names have up to 255 bytes, and characters up to 4.
_LONGEST_PREFIX = 40


def write_bytes(path: FilePath, data: bytes) -> None:
    """Writes a file.

    Args:
        path: the file; one that is there is replaced.
        data: its content.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    with replacing(path) as file:
        file.write(data)


def write_text(path: FilePath, text: str) -> None:
    """Writes a file of text in UTF-8; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


@contextlib.contextmanager
def replacing(path: FilePath) -> Iterator[IO[bytes]]:
    """Opens a file to be written; it takes its place when the block ends without an error.

    What is no ordinary file, such as a pipe or `/dev/stdout`, is written to directly.

    Args:
        path: the file; one that is there is replaced, a link is followed.

    Yields:
        The open file.

    Raises:
        OSError: it cannot be written; the error names `path`.
    """
    if _is_special(path):
        with open(path, "wb") as file:
            yield file
        return
    folder, name = os.path.split(os.path.realpath(path))
    partial = ""
    try:
        descriptor, partial = tempfile.mkstemp(PARTIAL_SUFFIX, _prefix(name), folder)
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(partial, os.path.join(folder, name))
        partial = ""
    except OSError as error:
        if not _is_about_partial(error):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        if partial:
            with contextlib.suppress(OSError):
                os.unlink(partial)


def partials(path: FilePath) -> list[Path]:
    """Returns what writers of a file have left that were killed; some may still be written to.

    Args:
        path: the file.
    """
    folder, name = os.path.split(os.path.realpath(path))
    return list(Path(folder).glob(f"{glob.escape(_prefix(name))}*{PARTIAL_SUFFIX}"))


def make_folder(path: FilePath, exist_ok: bool = True) -> Path:
    """Makes a folder and those that it is in, unless they are there.

    Args:
        path: the folder.
        exist_ok: whether it may be there already.

    Returns:
        The folder.

    Raises:
        OSError: it cannot be made, or is there and must not be.
    """
    folder = Path(path)
    for parent in reversed(folder.parents):
        if not parent.exists():
            parent.mkdir(_FOLDER_MODE, exist_ok=True)
    folder.mkdir(_FOLDER_MODE, exist_ok=exist_ok)
    return folder


def restrict(folder: FilePath) -> None:
    """Takes away what other users may do with a folder and all in it, which a library has written.

    What belongs to somebody else stays as it is.

    Args:
        folder: the folder, on a local disk.
    """
    for parent, _, names in os.walk(folder):
        paths = [os.path.join(parent, name) for name in names]
        for path, mode in ((parent, _FOLDER_MODE), *((path, _FILE_MODE) for path in paths)):
            if not os.path.islink(path):
                with contextlib.suppress(PermissionError):
                    os.chmod(path, mode)


def warn_not_written(what: str, folder: FilePath, error: OSError) -> None:
    """Warns that something is not written, once for each thing and folder.

    Args:
        what: what it is, such as `Reports`.
        folder: where it should have been written.
        error: why it is not.
    """
    warn_once(
        "%s cannot be written to %s: %s. The program runs on without them. Check that the folder "
        "may be written and has room.",
        what,
        os.fspath(folder),
        error,
        key=f"{what} in {os.fspath(folder)}",
    )


def _is_special(path: FilePath) -> bool:
    """Whether there is something that must not be replaced by a file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode)


def _prefix(name: str) -> str:
    """What the names of the partial files of a file begin with."""
    return f".{name[:_LONGEST_PREFIX]}."


def _is_about_partial(error: OSError) -> bool:
    """Whether an error is about the file being written, not about another that the block used."""
    if error.errno is None:
        return False
    return error.filename is None or str(error.filename).endswith(PARTIAL_SUFFIX)
