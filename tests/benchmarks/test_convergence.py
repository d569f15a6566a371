"""Samples to the target of MLPerf."""

from __future__ import annotations

import pytest
from measured import convergence
from measured.configuration import configuration
from measured.rows import NotExpressible, Row, parameters

BERT = "POD16;bert-large SL512 packed;4-stage pipeline x4 replicas;microbatch=2;GA=192;GBS=3072"
RESNET = "POD16;microbatch=20;GA=10;GBS=3200;replicas=16;1 IPU/replica"


def samples(workload, options, metric="time to train"):
    row = Row(2, "s", "t", "GC200", workload, parameters(options), metric, 30.0, "min")
    return convergence.to_target(row, configuration(row))


def test_resnet_trains_its_epochs_and_evaluates_every_four():
    # 38 epochs; an evaluation is 50,000 forward passes.
    expected = 38 * 1_281_167 + 38 / 4 * 50_000 / 3
    assert samples("ResNet-50 v1.5 training", RESNET) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "trained"),
    [
        ("shortest time to train", 2_482_176),
        ("time to train", 2_768_215),
        ("longest time to train", 3_121_152),
    ],
)
def test_bert_trains_as_long_as_the_reference(metric, trained):
    # Between two evaluations of 10,000 sequences are 57 updates.
    evaluated = trained / (57 * 3072) * 10_000 / 3
    found = samples("BERT-Large pre-training", BERT, metric)
    assert found == pytest.approx(trained + evaluated)


@pytest.mark.parametrize(
    ("workload", "options", "reason"),
    [
        ("ResNet-50 v1.5 training", RESNET.replace("GA=10;GBS=3200", "GA=1;GBS=320"), "epochs"),
        ("BERT-Large pre-training", "division=open;" + BERT, "samples to the target"),
        ("BERT-Large", BERT.replace("GA=192;GBS=3072", "GA=19;GBS=304"), "samples to the target"),
    ],
)
def test_training_whose_samples_are_not_published_is_refused(workload, options, reason):
    with pytest.raises(NotExpressible, match=reason):
        samples(workload, options)
