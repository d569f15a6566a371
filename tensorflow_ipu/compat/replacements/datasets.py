"""Datasets: transformations of `tensorflow.contrib.data`, and statistics as no-ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.util.notices import warn_once

# --- Transformations ---


def batch_and_drop_remainder(batch_size: int) -> Callable[[Any], Any]:
    """Returns a transformation for `Dataset.apply` that makes batches of one size.

    Args:
        batch_size: elements of each batch; the last ones that are fewer are dropped.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


# --- Statistics ---


def _say() -> None:
    warn_once(
        "TensorFlow 2.15 collects no statistics of datasets: StatsAggregator and "
        "options.experimental_stats have no effect, and summaries of them are empty."
    )


class StatsAggregator:
    """Stand-in for `tf.data.experimental.StatsAggregator`; its summary is empty."""

    def __init__(self) -> None:
        _say()

    def get_summary(self) -> tf.Tensor:
        """Returns an empty summary: a string of shape []."""
        return tf.constant(b"")

    def __repr__(self) -> str:
        return "StatsAggregator()"


class StatsOptions:
    """Stand-in for `tf.data.experimental.StatsOptions`: stores its attributes."""

    def __init__(self) -> None:
        self.aggregator: StatsAggregator | None = None
        self.prefix = ""
        self.counter_prefix = ""
        self.latency_all_edges: bool | None = None

    def __repr__(self) -> str:
        return f"StatsOptions(aggregator={self.aggregator!r})"


def _transformation() -> Callable[[Any], Any]:
    _say()
    return lambda dataset: dataset


def latency_stats(tag: str) -> Callable[[Any], Any]:
    """Returns a transformation for `Dataset.apply` that leaves the dataset as it is.

    Args:
        tag: has no effect.
    """
    del tag
    return _transformation()


def bytes_produced_stats(tag: str) -> Callable[[Any], Any]:
    """Returns a transformation for `Dataset.apply` that leaves the dataset as it is.

    Args:
        tag: has no effect.
    """
    del tag
    return _transformation()


def _get(options: Any) -> StatsOptions:
    stats: StatsOptions = vars(options).setdefault("_experimental_stats", StatsOptions())
    return stats


def _set(options: Any, value: StatsOptions) -> None:
    vars(options)["_experimental_stats"] = value


#: The property of `tf.data.Options`.
experimental_stats = property(_get, _set)
