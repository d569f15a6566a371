"""Models with assumed layouts: their sizes equal the papers', and their rows are found."""

from __future__ import annotations

import math

import pytest
import tensorflow as tf
from measured.models import assumed
from measured.models.catalogue import MODELS
from measured.replicate import layer_of
from measured.rows import NotExpressible, Row, parameters

BY_NAME = {model.module: model for model in MODELS}


def row(workload, options, metric="training throughput", unit="items/s"):
    return Row(2, "s", "t", "Bow", workload, parameters(options), metric, 1.0, unit)


def variables(model):
    """Elements of all variables of a model, layers that are repeated as often as they are."""
    program = assumed.program_of(model)
    total = 0
    with tf.Graph().as_default() as graph:
        values = tuple(tf.zeros(spec.shape, spec.dtype) for spec in program.element(1))
        for stage in program.stages(1):
            values = stage(*values)
            values = values if isinstance(values, tuple) else (values,)
        assert values[-1].shape == []
        for variable in graph.get_collection("variables"):
            total += math.prod(variable.shape) * program.repeats.get(layer_of(variable.name), 1)
    return total


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        # Dosovitskiy et al. (2020), table 1.
        ("vit", 86),
        # Xie et al. (2016), table 1, with the classes: 44.2 M in all implementations.
        ("resnext", 44.2),
        # Ronneberger et al. (2015): 31.0 M by their figure 1.
        ("unet", 31.0),
        # Gulati et al. (2020), table 1: 30.7 M with a decoder and the projections of positions,
        # which are 2.6 M; here are 5,000 classes.
        ("conformer", 28.1),
        # The reference of MLPerf Training: 49 M.
        ("rnnt", 49),
    ],
)
def test_models_have_the_size_of_the_papers(name, millions):
    assert variables(BY_NAME[name]) == pytest.approx(millions * 1e6, rel=0.1)


def test_channel_groups_make_efficientnet_larger_than_depthwise():
    # B4 has 19 M; Masters et al. (2021) keep the size about the same with groups and expansion 4.
    assert 15e6 < variables(BY_NAME["efficientnet"]) < 23e6


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("ViT pre-training", "vit"),
        ("EfficientNet-B4 (G16)", "efficientnet"),
        ("ResNeXt-101", "resnext"),
        ("UNet (medical)", "unet"),
        ("RNN-T training", "rnnt"),
        ("Conformer-medium training", "conformer"),
    ],
)
def test_rows_find_their_model(monkeypatch, workload, name):
    asked = []

    def seconds(model, chip, replicas, micro_batch, count, partials):
        asked.append((model.module, replicas * micro_batch * count))
        return 2.0

    monkeypatch.setattr(assumed, "_seconds", seconds)
    found = assumed.predict(row(workload, "Pod16;global batch=3072;precision=16.16"))
    assert asked == [(name, 3072)]
    assert found.value == 1536


@pytest.mark.parametrize(
    ("workload", "options", "metric", "reason"),
    [
        ("ViT", "global batch=64", "training throughput", "number of IPUs"),
        ("ViT", "Pod16", "training throughput", "batch size"),
        ("ViT", "Pod2;global batch=64", "training throughput", "fewer IPUs"),
        ("ViT", "Pod16;global batch=64", "latency", "comprises"),
        ("ViT", "Pod16;global batch=63", "training throughput", "not divisible"),
    ],
)
def test_rows_that_lack_something_are_refused(workload, options, metric, reason):
    with pytest.raises(NotExpressible, match=reason):
        assumed.predict(row(workload, options, metric))


def test_machine_has_four_ipus_and_mlperf_epochs(monkeypatch):
    monkeypatch.setattr(assumed, "_seconds", lambda *_: 2.0)
    machine = assumed.predict(row("UNet", "Bow-2000;global batch=24"))
    assert machine.value == 12
    epoch = assumed.predict(row("RNN-T", "POD64;GBS=1024;GA=16", "epoch time", "s"))
    assert epoch.value == pytest.approx(279_512 / 1024 * 2)
