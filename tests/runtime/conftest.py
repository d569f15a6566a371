"""A limit of time for tests of replicas, which would wait for ever if one of them got stuck."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

_SECONDS = 300


@pytest.fixture
def ends_in_time() -> Iterator[None]:
    """Ends the process with all stacks if a test takes five minutes."""
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
