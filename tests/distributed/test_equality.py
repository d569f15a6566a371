"""Trainings by real processes, bit for bit against one process with all their replicas.

`tests/support/processes/trainings.py` has the trainings; each process runs one after the other.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.support.processes import instances

ONE_PROGRAM = "tests.support.processes.instance_cases"
WORKERS = "tests.support.processes.worker_cases"
# What is not of all replicas.
OWN = "this instance"
# What is added up in another order.
ROUNDED = "rounded"
SOME = ("graph loop", "graph pipeline", "Keras")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a function that trains and returns the reports of all instances: arrays by case."""

    @functools.cache
    def train(module, count, total, *words):
        folder = tmp_path_factory.mktemp("trained")
        outcomes = instances.run(["-m", module, str(folder), *words], count, total)
        return [{each.pop("case"): each for each in outcome.reports} for outcome in outcomes]

    return train


def _assert_equal(found, want):
    for index, instance in enumerate(found):
        assert list(instance) == list(want) and want
        for case, arrays in want.items():
            assert set(instance[case]) == set(arrays)
            for name, value in arrays.items():
                if OWN in name:
                    continue
                assert np.all(np.isfinite(value))
                np.testing.assert_allclose(
                    instance[case][name],
                    value,
                    rtol=1e-5 if ROUNDED in name else 0,
                    atol=1e-6 if ROUNDED in name else 0,
                    err_msg=f"{case}: {name} of instance {index}",
                )


@pytest.mark.parametrize(("count", "total", "cases"), [(2, 4, ()), (4, 4, SOME)])
def test_one_program_trains_as_in_one_process(trained, count, total, cases):
    (want,) = trained(ONE_PROGRAM, 1, total, *cases)
    _assert_equal(trained(ONE_PROGRAM, count, total, *cases), want)


@pytest.mark.parametrize(("way", "count", "total"), [("cluster", 2, 2), ("OMPI", 4, 4)])
def test_workers_train_as_replicas_of_one_process(trained, way, count, total):
    """The sum over workers has the bits of the sum over replicas."""
    (want,) = trained(WORKERS, 1, total, "replicas")
    _assert_equal(trained(WORKERS, count, total, way), want)


def test_workers_with_replicas_add_up_reductions(trained):
    """Gradients are averaged over the two replicas of a worker, then added up over workers."""
    (want,) = trained(WORKERS, 1, 4, "replicas", "averaged by pairs")
    found = trained(WORKERS, 2, 4, "PMI", "averaged by pairs")
    for instance in found:
        for name, value in want["averaged by pairs"].items():
            if OWN not in name:
                np.testing.assert_allclose(
                    instance["averaged by pairs"][name], value, rtol=2e-6, atol=1e-7
                )
    first, second = (each["averaged by pairs"] for each in found)
    np.testing.assert_array_equal(first["w"], second["w"])
