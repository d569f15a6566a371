"""What was said to the user, so that it is said once."""

from __future__ import annotations

import threading

from absl import logging


class Notices:
    """Logs warnings, each once until the configuration changes."""

    def __init__(self) -> None:
        """Starts with nothing said."""
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def warn(self, text: str) -> None:
        """Logs a warning, unless the same was logged before.

        Args:
            text: the warning.
        """
        with self._lock:
            new = text not in self._said
            self._said.add(text)
        if new:
            logging.warning("%s", text)

    def clear(self, _: object = None) -> None:
        """Forgets what was said. Called with the new configuration."""
        with self._lock:
            self._said.clear()


#: Of this process.
NOTICES = Notices()
