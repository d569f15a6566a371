"""Patches: attributes of Keras replaced for a time; the modules called `hooks` list them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

# A class or module, the name of its attribute, and what it is to be.
Patch = tuple[Any, str, Any]

# In the place of an attribute that was not there.
_ABSENT = object()


class Patches:
    """Attributes that are replaced, or added, while at least one user of them is there.

    Users may be in different threads. When the last one goes, everything is as it was.
    """

    def __init__(self, patches: Callable[[], Iterable[Patch]]) -> None:
        """Creates the set of patches without applying them.

        Args:
            patches: returns what to replace, when the first user comes.
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
                self._originals.append((owner, name, vars(owner).get(name, _ABSENT)))
                setattr(owner, name, replacement)
            self._users += 1

    def __exit__(self, *error: object) -> None:
        """Takes a user away."""
        with self._lock:
            self._users -= 1
            while self._users == 0 and self._originals:
                owner, name, original = self._originals.pop()
                if original is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
