"""The log of PopART, for tests of its lines."""

from __future__ import annotations

import popart
import pytest


class Lines(str):
    """The log."""

    def count(self, *phrases):
        """Returns how often each phrase was logged; of one phrase the number itself."""
        found = tuple(str.count(self, phrase) for phrase in phrases)
        return found if len(phrases) > 1 else found[0]


@pytest.fixture
def popart_log(capfd):
    """Logs everything; each call returns the lines since the last one."""
    popart.getLogger().setLevel("TRACE")
    yield lambda: Lines(capfd.readouterr().err)
    popart.getLogger().setLevel("WARN")
