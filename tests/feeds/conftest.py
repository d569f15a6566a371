"""Fixtures of the tests of queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.runtime import system


@pytest.fixture
def configure() -> Iterator[Callable[[int], None]]:
    """Configures one device with a number of IPUs, and resets at the end."""

    def apply(ipus: int) -> None:
        config = IPUConfig()
        config.auto_select_ipus = ipus
        config.configure_ipu_system()

    yield apply
    system.reset_ipu_configuration()
