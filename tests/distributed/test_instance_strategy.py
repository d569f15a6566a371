"""Variables that instances aggregate when their strategy reads them."""

from __future__ import annotations

import pytest

from tests.support.processes import instances


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("saved"))
    outcomes = instances.run(["-m", "tests.support.processes.read_by_instances", folder], 2)
    return [outcome.reports[0] for outcome in outcomes]


def test_reads_in_the_scope_are_means(reports):
    for index, found in enumerate(reports):
        assert (found["begun"], found["value"], found["array"]) == (1.0, 2.5, 2.5)
        assert found["equal"] == [True, False]
        assert found["mean"] == 1.5  # of batches of 1 and 2
        assert found["own"] == 2.0 + index


def test_one_instance_saves_its_own_values(reports):
    assert (reports[0]["saved"], reports[0]["saved mean"]) == (2.0, 1.0)
