"""Files that are readable by the user only, and written whole or not at all.

This module writes all files of the package. A file is written under a temporary name in its folder,
and renamed when it is complete: a reader sees the old file or the new one, and after an error the
old one is unchanged. Files have the mode 0600 and new folders 0700, so other users of a shared
place cannot read them.
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

from tensorflow_ipu.util.notices import warn_once

FilePath = Union[str, "os.PathLike[str]"]

#: Ends the name of a file that is being written.
PARTIAL_SUFFIX = ".partial"

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
# Names have up to 255 bytes, and characters up to 4.
_LONGEST_PREFIX = 40


def write_bytes(path: FilePath, data: bytes) -> None:
    """Writes a file.

    Args:
        path: the file; an existing one is replaced.
        data: its content.

    Raises:
        OSError: it cannot be written; an earlier file is unchanged.
    """
    with replacing(path) as file:
        file.write(data)


def write_text(path: FilePath, text: str) -> None:
    """Writes a file of text in UTF-8; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


@contextlib.contextmanager
def replacing(path: FilePath) -> Iterator[IO[bytes]]:
    """Opens a file to be written; it takes its place when the block ends without an error.

    A special file, such as a pipe or `/dev/stdout`, is written directly.

    Args:
        path: the file; an existing one is replaced, a link is followed.

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
    """Returns the partial files of a file, of killed writers or of running ones.

    Args:
        path: the file.
    """
    folder, name = os.path.split(os.path.realpath(path))
    return list(Path(folder).glob(f"{glob.escape(_prefix(name))}*{PARTIAL_SUFFIX}"))


def make_folder(path: FilePath, exist_ok: bool = True) -> Path:
    """Creates a folder and its parents, unless they exist.

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
    """Removes other users' permissions on a folder and its files, which a library has written.

    Files of other owners are unchanged.

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
    """Warns that a file is not written, once for each kind of file and folder.

    Args:
        what: kind of file, such as `Reports`.
        folder: the target folder.
        error: the error.
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
    """Returns whether a path is something that a file must not replace."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode)


def _prefix(name: str) -> str:
    """Returns the prefix of the names of a file's partial files."""
    return f".{name[:_LONGEST_PREFIX]}."


def _is_about_partial(error: OSError) -> bool:
    """Returns whether an error is about the file being written, not another one of the block."""
    if error.errno is None:
        return False
    return error.filename is None or str(error.filename).endswith(PARTIAL_SUFFIX)
