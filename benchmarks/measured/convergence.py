"""Samples that a training needs to reach the target of MLPerf: from the rules, not from times.

BERT: the reference convergence points of MLPerf Training (`rcps_bert.json` of 1.1.0 and 2.0.0 in
github.com/mlcommons/logging), 20 runs of the reference for each batch. ResNet-50: the epoch of
`run_stop` in the published logs of the runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .configuration import RESNET, Configuration
from .rows import NotExpressible, Row

#: Images of ImageNet's training set, ILSVRC 2012.
IMAGENET = 1_281_167

# Of its validation set, and every how many epochs it is evaluated (rules of MLPerf Training).
_VALIDATION_IMAGES, _EPOCHS_PER_EVALUATION = 50_000, 4
# Sequences of an evaluation of BERT (rules of MLPerf Training).
_EVALUATION_SEQUENCES = 10_000
# The forward pass of a sample is a third of its training.
_FORWARD = 1 / 3


class _Runs(NamedTuple):
    """Samples to the target in the runs of the reference: fewest, mean, most."""

    fewest: int
    mean: int
    most: int


# By global batch.
_BERT = {
    3072: _Runs(2_482_176, 2_768_215, 3_121_152),
    4608: _Runs(2_488_320, 2_794_752, 3_041_280),
    6144: _Runs(2_998_272, 3_321_446, 3_686_400),
    6912: _Runs(3_290_112, 3_596_122, 3_797_776),
}
# Epochs by replicas and global batch.
_RESNET = {
    (16, 1920): 44,
    (64, 2560): 45,
    (16, 3200): 38,
    (16, 3520): 38,
    (64, 3840): 38,
    (64, 5120): 40,
    (128, 5120): 41,
    (256, 10240): 45,
}


def block(batch: float) -> float:
    """Returns the sequences between two evaluations of BERT, in whole batches.

    Formula: 0.05 x (230.23 x batch + 3,000,000), down to a multiple of 25,000, up to whole batches.
    Source: the rules of MLPerf Training, as submissions implement them.

    Args:
        batch: sequences of an update.
    """
    interval = math.floor(0.05 * (230.23 * batch + 3_000_000) / 25_000) * 25_000
    return math.ceil(interval / batch) * batch


def to_target(row: Row, config: Configuration) -> float:
    """Returns the samples of a training to the target, evaluations counted as parts of samples.

    Args:
        row: a time to train: the shortest, the longest or the mean of several runs.
        config: of the row.

    Raises:
        NotExpressible: how many samples the training takes is not published.
    """
    batch = round(config.items)
    if config.model == RESNET:
        epochs = _RESNET.get((config.replicas, batch))
        if epochs is None:
            raise NotExpressible("the number of epochs is not given")
        evaluations = epochs / _EPOCHS_PER_EVALUATION
        return epochs * IMAGENET + evaluations * _VALIDATION_IMAGES * _FORWARD
    runs = _BERT.get(batch)
    if runs is None or "division=open" in row.text:
        # What is open is how they train, so the reference says nothing of them.
        raise NotExpressible("the number of samples to the target is not given")
    samples = _of_runs(row, runs)
    return samples + samples / block(batch) * _EVALUATION_SEQUENCES * _FORWARD


def _of_runs(row: Row, runs: _Runs) -> int:
    """The samples that a row is about."""
    metric = row.metric.lower()
    if "shortest" in metric:
        return runs.fewest
    return runs.most if "longest" in metric else runs.mean
