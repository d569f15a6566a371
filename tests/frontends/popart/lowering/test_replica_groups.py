"""Weights of which groups of replicas have values of their own."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_training as models
from tests.support.popart.popart_training import Trained

Kind = popart.CommGroupType
GROUPS = {
    "consecutive": (popart.CommGroup(Kind.Consecutive, 2), [[0, 1], [2, 3]]),
    "orthogonal": (popart.CommGroup(Kind.Orthogonal, 2), [[0, 2], [1, 3]]),
    "ungrouped": (popart.CommGroup(Kind.Ungrouped, 0), [[0], [1], [2], [3]]),
}
MODES = popart.VariableRetrievalMode


def momentum(**arguments):
    values = {"defaultLearningRate": (0.1, True), "defaultMomentum": (0.9, True), **arguments}
    separate = popart.SGDAccumulatorAndMomentum.Separate
    return popart.SGD(values, accumulatorAndMomentum=separate)


def mean_options():
    options = popart.SessionOptions()
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    return options


@pytest.mark.parametrize(
    "name, mean", [("consecutive", True), ("orthogonal", False), ("ungrouped", False)]
)
def test_each_group_trains_its_own_values(name, mean, tmp_path):
    domain, groups = GROUPS[name]
    settings = popart.VariableSettings(domain)
    options = mean_options() if mean else None
    count = len(groups)
    with Trained(momentum(), 2, 2, 4, options=options, settings=settings, groups=count) as trained:
        assert trained.session.getInfo("w1").shape() == [3, 4]
        trained.run(2)
        shape = (count, 3, 4)
        read = trained.read(
            w1=np.empty(shape, np.float32),
            w2=np.empty((count, 4, 2), np.float32),
            Accl1___w1=np.empty(shape, np.float32),
        )
        path = str(tmp_path / "trained.onnx")
        trained.session.modelToHost(path)
        trained.session.resetHostWeights(path)
    for group, members in enumerate(groups):
        weights = {n: v[group].astype(float) for n, v in models.start(count).items()}
        kept = dict.fromkeys(weights, 0.0)
        for batch in np.concatenate([trained.data] * 2):
            # The divisor of a mean is the number of all replicas.
            found = models.summed(weights, batch[:, members])
            kept = {n: 0.9 * kept[n] + g / (8 if mean else 1) for n, g in found.items()}
            weights = {n: w - 0.1 * kept[n] for n, w in weights.items()}
        np.testing.assert_allclose(read["w1"][group], weights["w1"], 1e-5, 1e-5)
        np.testing.assert_allclose(read["w2"][group], weights["w2"], 1e-5, 1e-5)
        np.testing.assert_allclose(read["Accl1___w1"][group], kept["w1"], 1e-5, 1e-5)


@pytest.mark.parametrize("name", ["consecutive", "orthogonal"])
def test_all_replicas_can_return_their_values(name):
    domain, groups = GROUPS[name]
    settings = popart.VariableSettings(domain, MODES.AllReplicas)
    with Trained(momentum(), 1, 1, 4, settings=settings, groups=2) as trained:
        of_all = trained.read(w1=np.empty((4, 3, 4), np.float32))["w1"]
        for group, members in enumerate(groups):
            for replica in members:
                np.testing.assert_array_equal(of_all[replica], models.start(2)["w1"][group])
        # What is written has a value for each group.
        new = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        trained.session.writeWeights(popart.PyWeightsIO({"w1": new}))
        trained.session.weightsFromHost()
        of_all = trained.read(w1=of_all)["w1"]
        np.testing.assert_array_equal(of_all[groups[1][0]], new[1])


def test_whole_group_can_return_value_for_each():
    settings = popart.VariableSettings(MODES.AllReplicas)
    with Trained(momentum(), 1, 1, 2, settings=settings) as trained:
        of_all = trained.run().read(w1=np.empty((2, 3, 4), np.float32))["w1"]
        np.testing.assert_array_equal(of_all[0], of_all[1])


def test_anchored_weights_are_those_of_each_replica():
    settings = popart.VariableSettings(GROUPS["consecutive"][0])
    anchors = {"w1": popart.AnchorReturnType("Final"), "Accl1___w1": popart.AnchorReturnType("All")}
    with Trained(momentum(), 1, 1, 4, settings=settings, groups=2, anchors=anchors) as trained:
        trained.run()
        read = trained.read(w1=np.empty((2, 3, 4), np.float32))["w1"]
        np.testing.assert_array_equal(trained.results["w1"], read[[0, 0, 1, 1]])
        assert trained.results["Accl1___w1"].shape == (4, 3, 4)


def test_values_and_groups_have_to_fit():
    settings = popart.VariableSettings(GROUPS["consecutive"][0])
    with pytest.raises(popart.popart_exception, match="Return mismatch"):
        Trained(momentum(), replicas=4, settings=settings, groups=3)
    settings = popart.VariableSettings(popart.CommGroup(Kind.Consecutive, 4))
    with pytest.raises(popart.popart_exception, match="divisible by the product"):
        Trained(momentum(), replicas=2, settings=settings, groups=2)
