"""Programs of PopXL whose replicas run in several processes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.popxl.popxl_processes import ENTRY, LENGTH, SHARD_STEP
from tests.support.processes import instances

REPLICAS = 4


@pytest.mark.parametrize("count", [2, 4])
def test_replicas_of_several_processes_have_own_values(count):
    arguments = ["-m", "tests.support.popxl.popxl_processes"]
    outcomes = instances.run(arguments, count=count, replicas=REPLICAS)
    x = np.arange(REPLICAS * LENGTH, dtype=np.float32).reshape(REPLICAS, LENGTH)
    local = REPLICAS // count
    groups = x.reshape(2, 2, LENGTH)
    values = np.arange(2 * LENGTH, dtype=np.float32).reshape(2, LENGTH)
    sharded = np.arange(LENGTH) + 2 * SHARD_STEP * x.sum(axis=0)
    for index, outcome in enumerate(outcomes):
        assert outcome.code == 0, outcome.text
        (found,) = outcome.reports
        own = slice(index * local, (index + 1) * local)
        assert found["replicas"] == [REPLICAS, local]
        np.testing.assert_array_equal(found["in_groups"], np.tile(groups.sum(axis=0), (2, 1))[own])
        np.testing.assert_array_equal(found["gathered"], np.tile(sharded, (local, 1)))
        # The first replicas of the groups 0 2 and 1 3 have what comes to the host.
        np.testing.assert_array_equal(found["own"], values + 2 * x[:2])
        np.testing.assert_array_equal(found["all_of_own"], 2 * x)
        np.testing.assert_array_equal(found["whole"], 1 + 2 * x.sum(axis=0))
        np.testing.assert_array_equal(found["sharded"], sharded)
        assert found["remote"] == [2 * x.sum(), (2 * x.reshape(2, -1).sum(1)).tolist()]
        # The two replicas of a process have one of each buffer; other variables are small.
        shared = [found[name] // (4 * ENTRY) for name in ("uniform_bytes", "copied_bytes")]
        assert shared == ([1, 1] if local == 2 else [0, 0])
