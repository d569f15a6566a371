"""Records of compilations: reports, events, the disk cache and the serialization folder.

A file is a zip archive with two members: `executable.json`, the description of the Executable, and
`library.pb`, its functions as a serialised `FunctionDefLibrary`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from absl import logging
from google.protobuf.message import DecodeError
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.runtime import events
from tensorflow_ipu.runtime.attachment import System
from tensorflow_ipu.util import archives, private_files

CACHE_SUFFIX = ".poplar_exec"
LOCK_SUFFIX = ".compile_lock"
SERIALIZED_SUFFIX = ".ipu_bin"
_FORMAT = 1
_DESCRIPTION, _LIBRARY = "executable.json", "library.pb"


def describe(executable: Executable) -> dict[str, Any]:
    """Returns an Executable's description as data for JSON."""
    return {
        "format": _FORMAT,
        "name": executable.name,
        "fingerprint": executable.fingerprint,
        "replicas": executable.replicas,
        "ipus_used": executable.ipus_used,
        "entry": executable.entry,
        "arguments": [
            {
                "name": argument.name,
                "dtype": argument.dtype.name,
                "shape": list(argument.shape),
                "is_variable": argument.is_variable,
            }
            for argument in executable.arguments
        ],
        "results": [
            {"dtype": result.dtype.name, "shape": str(result.shape)}
            for result in executable.results
        ],
    }


def save(executable: Executable, path: Path, members: Mapping[str, bytes] | None = None) -> None:
    """Writes an Executable to a file.

    Args:
        executable: the Executable.
        path: the file.
        members: further members of the archive, by name.

    Raises:
        OSError: If it cannot be written.
    """
    with private_files.replacing(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_DESCRIPTION, json.dumps(describe(executable), indent=1))
            archive.writestr(_LIBRARY, executable.library.SerializeToString(deterministic=True))
            for name, content in (members or {}).items():
                archive.writestr(name, content)


def load(path: Path) -> tuple[dict[str, Any], function_pb2.FunctionDefLibrary]:
    """Reads a file that `save` wrote.

    Args:
        path: the file.

    Returns:
        The description (as from `describe`), and the functions.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is of another program or format, or damaged.
    """
    with archives.reading(path, "an executable of tensorflow_ipu") as archive:
        description = archives.read_json(archive, _DESCRIPTION)
        if description.get("format") != _FORMAT:
            raise ValueError(
                f"its format is {description.get('format')!r}, and this release reads {_FORMAT}. "
                "Delete it: it is made again when the program is compiled"
            )
        try:
            library = function_pb2.FunctionDefLibrary.FromString(archive.read(_LIBRARY))
        except DecodeError as error:
            raise ValueError(f"{_LIBRARY} has no functions ({error})") from error
    return description, library


def serialize(executable: Executable, folder: str) -> None:
    """Writes an Executable and its description into the serialisation folder.

    Args:
        executable: the Executable.
        folder: the folder; made if it is missing.

    Raises:
        OSError: If they cannot be written.
    """
    directory = private_files.make_folder(folder)
    save(executable, directory / f"{executable.fingerprint}{SERIALIZED_SUFFIX}")
    text = json.dumps(describe(executable), indent=1)
    private_files.write_text(directory / f"{executable.fingerprint}.json", text)


def write_plan(executable: Executable, file: str) -> tuple[str, bool]:
    """Saves the report of a program that is only planned.

    Args:
        executable: the program.
        file: the file to write.

    Returns:
        The report as text, and whether the program fits on its IPUs.

    Raises:
        OSError: The file cannot be written.
    """
    from tensorflow_ipu.profiler import automatic

    return automatic.planned(executable, file)


def write_reports(executable: Executable) -> str:
    """Writes and logs the reports that options request of a program just compiled.

    Args:
        executable: the program.

    Returns:
        The directory of its report; empty if none was written.

    Raises:
        ValueError: an option about reports has a value that it does not take.
    """
    if executable.on_device and _asked(executable.system):
        # The profiler knows the compiler, so it is imported only where an option asks for it.
        from tensorflow_ipu.profiler import automatic

        return automatic.compiled(executable)
    return ""


def _asked(attached: System) -> bool:
    """Returns whether options or flags may ask for files or log lines about programs."""
    flags = attached.flags
    return (
        flags.log_cycle_count >= 0
        or bool(flags.save_interval_report or flags.tensor_map_file_path)
        or flags.dump_schedule_as_dot
        or bool(attached.options.profiling.report_directory)
        or any(name.startswith("autoReport.") for name in attached.engine_options)
    )


def record(executable: Executable, began: float) -> None:
    """Records a compilation, and saves the Executable to the folders that are configured.

    If another process has saved it before, there is no event.

    Args:
        executable: the Executable.
        began: time when its compilation began, in seconds.

    Raises:
        OSError: If a device that is configured for pre-compilation cannot save it.
    """
    events.STORE.remember(executable)
    cache_folder = executable.system.flags.executable_cache_path
    if cache_folder:
        disk = DiskCache(cache_folder)
        with disk.locked(executable.fingerprint) as known:
            if not known:
                _record_event(executable, began)
                # Pre-compilation has no other result than the file.
                disk.save(executable, required=executable.system.pre_compiles)
    else:
        _record_event(executable, began)
    serialization_folder = executable.system.settings.serialization_output_folder
    if serialization_folder:
        serialize(executable, serialization_folder)


def _record_event(executable: Executable, began: float) -> None:
    if events.STORE.enabled:
        executable.keep_sources()  # its event is made when it is read
    with events.compiling(
        executable.name,
        executable.ordinal,
        executable.on_device,
        began=began,
        max_report_bytes=events.report_bytes(executable.system),
    ) as finished:
        finished(executable)


class DiskCache:
    """The directory of the flag `--executable_cache_path`. It is never cleaned.

    An unusable cache, and damaged or foreign files in it, are warnings: the program is compiled.
    """

    def __init__(self, folder: str) -> None:
        """Sets the folder, which is made at the first save."""
        self._directory = Path(folder)

    def path(self, fingerprint: str) -> Path:
        """Returns the file of an Executable."""
        return self._directory / f"{fingerprint}{CACHE_SUFFIX}"

    @contextlib.contextmanager
    def locked(self, fingerprint: str) -> Iterator[bool]:
        """Holds the lock of one Executable, so that processes wait for one compilation.

        Where there can be no lock, as in a folder that may only be read, none is held.

        Yields:
            Whether the Executable is in the cache.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._lock(fingerprint))
            except OSError as error:
                logging.info("The executable cache is used without a lock: %s", error)
            else:
                self._remove_partials(fingerprint)
            yield self._has(fingerprint)

    def save(self, executable: Executable, required: bool = False) -> None:
        """Keeps an Executable; call in `locked`.

        Args:
            executable: the Executable.
            required: whether it is an error if it cannot be written; otherwise it is a warning.

        Raises:
            OSError: If it is required and cannot be written.
        """
        try:
            private_files.make_folder(self._directory)
            save(executable, self.path(executable.fingerprint))
        except OSError as error:
            if required:
                raise
            private_files.warn_not_written("Executables", self._directory, error)

    @contextlib.contextmanager
    def _lock(self, fingerprint: str) -> Iterator[None]:
        """Holds the lock of one Executable; it ends with its file, also in a process that dies."""
        private_files.make_folder(self._directory)
        path = self._directory / f"{fingerprint}{LOCK_SUFFIX}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _remove_partials(self, fingerprint: str) -> None:
        """Removes partial files of killed processes. The caller holds the lock."""
        name = self.path(fingerprint).name
        for partial in private_files.partials(self._directory / name):
            with contextlib.suppress(OSError):
                partial.unlink()

    def _has(self, fingerprint: str) -> bool:
        """Returns whether the file of an Executable exists and is whole."""
        path = self.path(fingerprint)
        try:
            found = load(path)[0].get("fingerprint")
            if found == fingerprint:
                return True
            problem = f"{path} belongs to another program, {found!r}"
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError) as error:
            problem = str(error)
        logging.warning(
            "A file of the executable cache is not used: %s. The program is compiled, and the file "
            "replaced.",
            problem,
        )
        return False
