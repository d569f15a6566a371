"""Rows of training whole models: throughput, and times that follow from it."""

from __future__ import annotations

from . import convergence, training
from .configuration import RESNET, Configuration, configuration
from .prediction import Prediction
from .rows import NotExpressible, Row
from .units import is_rate, of_time

GROUP = {
    "throughput": "training throughput",
    "time": "time of an epoch or block of training",
}
# Not one of these: besides the chip's work it has checkpoints, evaluations and their input.
TO_TARGET = "time to train"
# The collectives' share of the link rate was fitted to rows of these sources; the others check it.
FITTED_SOURCE = "MLPerf Training"


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
        return _prediction(row, config, GROUP["throughput"], rate)
    samples = _samples(row, config)
    seconds = samples * _seconds(config) / config.items
    kind = TO_TARGET if TO_TARGET in row.metric.lower() else GROUP["time"]
    return _prediction(row, config, kind, of_time(seconds, row, config.chip))


def _prediction(row: Row, config: Configuration, kind: str, value: float) -> Prediction:
    group = f"{config.model}, {kind}"
    fitted = FITTED_SOURCE in row.source
    name = f"{config}, {TO_TARGET}" if kind == TO_TARGET else str(config)
    parts = () if kind == TO_TARGET else training.parts(config)
    return Prediction(row, group, config.chip, value, fitted, name, parts=parts)


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
        return convergence.IMAGENET
    if "block time" in metric and config.model != RESNET:
        return convergence.block(config.items)
    if TO_TARGET in metric:
        return convergence.to_target(row, config)
    raise NotExpressible(f"what '{row.metric}' comprises is not given")


def is_whole_model(prediction: Prediction) -> bool:
    """Whether a prediction is of steps of training, which only the chip takes part in."""
    return any(prediction.group.endswith(kind) for kind in GROUP.values())
