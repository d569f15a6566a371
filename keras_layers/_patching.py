"""Replacing attributes of Keras for a time: how, not which. See the modules called `hooks`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

# A class or module, the name of its attribute, and what it is to be.
Patch = tuple[Any, str, Any]


class Patches:
    """Attributes that are replaced while at least one user of them is there.

    Users may be in different threads. When the last one goes, everything is as it was.
    """

    def __init__(self, patches: Callable[[], Iterable[Patch]]) -> None:
        """Remembers what to do.

        Args:
            patches: Returns what to replace, when the first user comes.
        """
        self._patches = patches
        self._lock = threading.Lock()
        self._users = 0
        self._originals: list[Patch] = []

    def __enter__(self) -> None:
        """Adds a user."""
        with self._lock:
            for owner, name, replacement in () if self._users else list(self._patches()):
                # Not getattr, which would call descriptors and look at base classes.
                self._originals.append((owner, name, vars(owner)[name]))
                setattr(owner, name, replacement)
            self._users += 1

    def __exit__(self, *error: object) -> None:
        """Takes a user away."""
        with self._lock:
            self._users -= 1
            while self._users == 0 and self._originals:
                setattr(*self._originals.pop())
