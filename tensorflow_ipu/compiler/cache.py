"""The Executables of the configuration in force."""

from __future__ import annotations

import threading

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.device import system


class ExecutableCache:
    """Executables by fingerprint. Emptied when the configuration changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executables: dict[str, Executable] = {}

    def find(self, fingerprint: str) -> Executable | None:
        """Returns the Executable with this fingerprint, if it was compiled before."""
        with self._lock:
            return self._executables.get(fingerprint)

    def add(self, executable: Executable) -> None:
        """Keeps an Executable."""
        with self._lock:
            self._executables[executable.fingerprint] = executable

    def all(self) -> list[Executable]:
        """Returns the Executables in the order of their compilation."""
        with self._lock:
            return list(self._executables.values())

    def clear(self, _: system.System | None = None) -> None:
        """Forgets everything."""
        with self._lock:
            self._executables.clear()


CACHE = ExecutableCache()


def executables() -> list[Executable]:
    """Returns what was compiled under the configuration in force, oldest first."""
    return CACHE.all()
