"""The graph that the tests of PopXL's addons build in."""

from __future__ import annotations

import popxl
import pytest


@pytest.fixture
def main():
    with popxl.Ir().main_graph as graph:
        yield graph
