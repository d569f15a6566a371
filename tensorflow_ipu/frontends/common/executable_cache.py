"""The cache of compiled programs in files `<hash>.popef`, for all front ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.util.notices import warn_once

_SUFFIX = ".popef"
_log = Logger("session")


def folder_of_environment() -> str:
    """Returns the folder of the cache that the environment names; "" if none."""
    shared = os.environ.get("POPXL_CACHE_DIR", "")
    own = os.environ.get("POPART_CACHE_DIR", "")
    if shared and own and shared != own:
        warn_once("POPXL_CACHE_DIR=%s is used, and not POPART_CACHE_DIR=%s.", shared, own)
    return shared or own


class Entry:
    """The place of one program in a cache.

    Attributes:
        path: The file of the program, which need not be there.
    """

    def __init__(self, folder: str, digest: str) -> None:
        """Takes the program.

        Args:
            folder: the folder of the cache.
            digest: a hash of all that the program depends on.
        """
        self.path = Path(folder) / f"{digest}{_SUFFIX}"

    def __repr__(self) -> str:
        return f"Entry({self.path})"

    def is_there(self, read: Callable[[Path], None]) -> bool:
        """Returns whether the cache has the program; logs which of its files is taken.

        Args:
            read: reads the file; raises an OSError or a ValueError if it is damaged, or that of
                another program.
        """
        for path in sorted(self.path.parent.glob(f"*{_SUFFIX}")):
            _log.info(f"PopEF file inferred to have hash {path.stem}: {path}")
        if not self.path.is_file():
            return False
        try:
            _preload(self.path)
            read(self.path)
        except (OSError, ValueError) as error:
            _log.warn(f"Cache file hash did not match the IR hash {self.path.stem}: {error}")
            _log.warn(
                "Ignoring cache file because it does not contain the program, which is compiled: "
                f"{self.path}"
            )
            return False
        log_loading(self.path)
        return True


def log_loading(path: str | os.PathLike[str]) -> None:
    """Logs that a compiled program is taken from a file.

    Args:
        path: the file.
    """
    _log.info(f"Loading serialized PopART executable from {os.fspath(path)}")


def log_compiling() -> None:
    """Logs that a program is compiled, as no file has it."""
    _log.info("Starting compilation")


def _preload(path: Path) -> None:
    """Reads a file once before it is used, if the environment says so: it is in memory then."""
    if os.environ.get("POPART_PRELOAD_POPEF") != "full-preload":
        return
    _log.debug(f"Performing preload of popef file {path}")
    path.read_bytes()
    _log.debug(f"Completed preload of popef file {path}")
