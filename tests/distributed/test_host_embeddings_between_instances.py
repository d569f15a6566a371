"""Tests of host embeddings whose updates come from replicas in several processes."""

from __future__ import annotations

import numpy as np

from tests.support.processes import host_embedding_training, instances
from tests.support.programs import replicas

COUNT = 2
TOTALS = (2, 4)


def _descended(total: int) -> np.ndarray:
    """Returns the table after descent on the sum of squares, as NumPy computes it."""
    table = host_embedding_training.initial()
    for group in host_embedding_training.ids(total).reshape(
        -1, host_embedding_training.ACCUMULATED * total * host_embedding_training.BATCH
    ):
        gradient = np.zeros_like(table)
        np.add.at(gradient, group, 2 * table[group])
        table = table - host_embedding_training.RATE * gradient
    return table


def test_table_of_each_instance_gets_updates_of_replicas():
    words = ["-m", "tests.support.processes.host_embedding_training", *map(str, TOTALS)]
    outcomes = instances.run(words, COUNT)
    for place, total in enumerate(TOTALS):
        replicas.configure(total)
        alone = host_embedding_training.trained(total)
        np.testing.assert_allclose(alone, _descended(total), 1e-5, 1e-6)
        for outcome in outcomes:
            assert outcome.reports[place]["total"] == total
            np.testing.assert_array_equal(outcome.reports[place]["table"], alone)
