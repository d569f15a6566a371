"""Training that is killed, at any time, goes on from its checkpoint and ends with the same bits.

Here at a few points; `make test-killed` takes ten of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import kills

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def trainer() -> Iterator[kills.Trainer]:
    with kills.Trainer() as trainer:
        yield trainer


@pytest.mark.parametrize("kind", kills.KINDS)
def test_training_killed_twice_ends_as_one_not(
    trainer: kills.Trainer, tmp_path: Path, kind: str
) -> None:
    assert len(list(kills.check(trainer, kind, tmp_path, count=2, seed=1))) == 3
