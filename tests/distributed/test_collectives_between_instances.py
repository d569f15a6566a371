"""Tests of collectives whose replicas are in several processes."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.support.processes import collective_cases, instances
from tests.support.programs import replicas

# Replicas of all instances, by the number of these.
TOTALS = {2: (2, 4), 3: (6,), 4: (4, 8)}
SHARED = [(count, total) for count, totals in TOTALS.items() for total in totals]


@functools.cache
def _reports(count: int) -> list[list[dict]]:
    """Runs `count` instances and returns the report of each."""
    words = ["-m", "tests.support.processes.collective_cases", *map(str, TOTALS[count])]
    return [outcome.reports for outcome in instances.run(words, count)]


def _between_instances(count: int, total: int) -> dict[str, np.ndarray]:
    """Returns the results of all replicas, in order."""
    each = [reports[TOTALS[count].index(total)] for reports in _reports(count)]
    assert [report["total"] for report in each] == [total] * count
    return {
        case.name: np.concatenate([report[case.name] for report in each])
        for case in collective_cases.cases(total)
    }


# No device has 6 IPUs.
@pytest.mark.parametrize(("count", "total"), [(i, total) for i, total in SHARED if i != 3])
def test_instances_compute_the_bits_of_one_process(count, total):
    replicas.configure(total)
    for name, alone in collective_cases.computed(total).items():
        together = _between_instances(count, total)[name]
        assert together.dtype == alone.dtype, name
        np.testing.assert_array_equal(together, alone.reshape(total, -1), name)


@pytest.mark.parametrize(("count", "total"), SHARED)
def test_instances_equal_numpy_in_replica_order(count, total):
    together = _between_instances(count, total)
    for case in collective_cases.cases(total):
        expected = case.expected()
        wide = np.float32 if expected.dtype.name == "bfloat16" else expected.dtype
        np.testing.assert_array_equal(
            together[case.name], expected.reshape(total, -1).astype(wide), case.name
        )
