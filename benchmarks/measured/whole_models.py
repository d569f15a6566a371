"""Rows of training whole models: throughput, and times that follow from it."""

from __future__ import annotations

import math

from . import training
from .configuration import RESNET, Configuration, configuration
from .prediction import Prediction
from .rows import NotExpressible, Row
from .units import is_rate, of_time

GROUP = {"throughput": "training throughput", "time": "time of an epoch or block of training"}
# The collectives' share of the link rate was fitted to rows of this chip; the others check it.
FITTED_CHIP = "mk2"

# Images of ImageNet's training set, ILSVRC 2012.
_IMAGENET = 1_281_167


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is of no model that is known here.

    Raises:
        NotExpressible: it lacks something.
    """
    config = configuration(row)
    if config is None:
        return None
    if is_rate(row) and "throughput" in row.metric.lower():
        rate = config.items / _seconds(config)
        return _prediction(row, config, "throughput", rate)
    samples = _samples(row, config)
    seconds = samples * _seconds(config) / config.items
    return _prediction(row, config, "time", of_time(seconds, row, config.chip))


def _prediction(row: Row, config: Configuration, kind: str, value: float) -> Prediction:
    group = f"{config.model}, {GROUP[kind]}"
    fitted = config.chip.name == FITTED_CHIP
    return Prediction(row, group, config.chip, value, fitted, str(config))


def _seconds(config: Configuration) -> float:
    """Seconds of one weight update.

    Raises:
        NotExpressible: the configuration is not one that a program can have.
    """
    try:
        return training.seconds(config)
    except ValueError as error:
        raise NotExpressible(f"the program is refused: {error}") from error


def _samples(row: Row, config: Configuration) -> float:
    """Samples that are trained on in the time that a row gives."""
    metric = row.metric.lower()
    if "epoch time" in metric and config.model == RESNET:
        return _IMAGENET
    if "block time" in metric and config.model != RESNET:
        return _block(config.items)
    raise NotExpressible(f"what '{row.metric}' comprises is not given")


def _block(batch: float) -> float:
    """Sequences between two evaluations of BERT in MLPerf, in whole batches.

    Formula: 0.05 x (230.23 x batch + 3,000,000), down to a multiple of 25,000, up to whole batches.
    Source: the rules of MLPerf Training, as submissions implement them.
    """
    interval = math.floor(0.05 * (230.23 * batch + 3_000_000) / 25_000) * 25_000
    return math.ceil(interval / batch) * batch


def is_whole_model(prediction: Prediction) -> bool:
    """Whether a prediction is one of these."""
    return any(prediction.group.endswith(kind) for kind in GROUP.values())
