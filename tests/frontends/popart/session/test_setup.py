"""Replicas in several processes, against NumPy."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_training as models
from tests.support.processes import instances


def test_processes_train_as_one():
    outcomes = instances.run(["-m", "tests.support.popart.popart_processes"], count=2, replicas=4)
    data = models.samples(2, 2, 4)
    expected = np.empty((4, 3, 4))
    for group in (0, 1):
        members = [group, group + 2]
        weights = {name: value[group].astype(float) for name, value in models.start(2).items()}
        kept = dict.fromkeys(weights, 0.0)
        for batch in np.concatenate([data, data]):
            found = models.summed(weights, batch[:, members])
            kept = {name: 0.9 * kept[name] + found[name] for name in weights}
            weights = {name: w - 0.1 * kept[name] for name, w in weights.items()}
        expected[members] = weights["w1"]
    for outcome in outcomes:
        (found,) = outcome.reports
        np.testing.assert_allclose(found["w1"], expected, 1e-5, 1e-5)
        assert found["losses"].shape == (2, 2, 2)


@pytest.mark.parametrize(
    "total, offset, replicas, message",
    [
        (0, 0, 1, "Invalid globalReplicationFactor"),
        (2, -1, 1, "Invalid globalReplicaOffset"),
        (2, 3, 1, "Global replica offset"),
        (1, 0, 2, "Invalid local replication factor"),
        (4, 0, 2, "Start it with poprun"),
        (2, 2, 2, "Invalid globalReplicaOffset"),
    ],
)
def test_numbers_of_replicas_are_those_of_the_processes(total, offset, replicas, message):
    options = popart.SessionOptions()
    options.enableDistributedReplicatedGraphs = True
    options.globalReplicationFactor, options.globalReplicaOffset = total, offset
    with pytest.raises(popart.popart_exception, match=message):
        models.Trained(popart.SGD({}), replicas=replicas, options=options)


def test_one_process_can_have_all_replicas():
    options = popart.SessionOptions()
    options.enableDistributedReplicatedGraphs, options.globalReplicationFactor = True, 2
    with models.Trained(popart.SGD({}), replicas=2, options=options) as trained:
        found = models.summed(models.start(), trained.data)["w2"]
        read = trained.run().read()["w2"]
        np.testing.assert_allclose(read, models.start()["w2"] - 0.1 * found, 1e-5, 1e-5)
