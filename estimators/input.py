"""Feeds of an estimator's programs, from the dataset of an `input_fn`."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from tensorflow_ipu.estimators.ipu_run_config import IPURunConfig
from tensorflow_ipu.feeds.ipu_infeed_queue import DataInfeedQueue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue

_NOT_DELETED = (tf.errors.NotFoundError, tf.errors.FailedPreconditionError)


class Batches:
    """The feeds of one program: the infeed with its batches, and the outfeeds it fills.

    Stock `Estimator` hands this around in place of the features.
    """

    def __init__(self, dataset: tf.data.Dataset, mode: str, options: IPURunConfig) -> None:
        """Makes the infeed queue.

        Args:
            dataset: the dataset to read.
            mode: a `tf.estimator.ModeKeys`.
            options: the ordinal and the prefetch depth.
        """
        self.mode = mode
        self.infeed = DataInfeedQueue(
            dataset, device_ordinal=options.ordinal, prefetch_depth=options.prefetch_depth
        )
        self._ordinal = options.ordinal
        self._outfeeds: list[IPUOutfeedQueue] = []

    def new_outfeed(self, mode: IPUOutfeedMode = IPUOutfeedMode.ALL) -> IPUOutfeedQueue:
        """Returns an outfeed queue of the device, which is freed with the infeed.

        Args:
            mode: which results it keeps.
        """
        outfeed = IPUOutfeedQueue(outfeed_mode=mode, device_ordinal=self._ordinal)
        self._outfeeds.append(outfeed)
        return outfeed

    def delete(self) -> None:
        """Frees all queues after the program has ended, with the elements left in them.

        One that was never used is not there, and one that still is, after an error, stays.
        """
        with context.eager_mode():
            queues: list[Any] = [self.infeed, *self._outfeeds]
            for queue in queues:
                with contextlib.suppress(*_NOT_DELETED):
                    queue.deleter  # noqa: B018  (reading it deletes)


def split_element(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Splits the arguments of a loop body into features and labels.

    Args:
        args: members of a tuple: features, and labels if there are any.
        kwargs: members of a dict, which is all features.

    Returns:
        Features, and labels or None.
    """
    if kwargs:
        return kwargs, None
    return args if len(args) == 2 else (args[0], None)


def check_dataset(result: Any) -> tf.data.Dataset:
    """Returns the result of an `input_fn` after checking that it is a dataset.

    Raises:
        ValueError: If it is something else.
    """
    if not isinstance(result, tf.data.Dataset):
        raise ValueError(
            "input_fn must return Dataset: a tf.data.Dataset whose elements are features or "
            f"(features, labels). Received: {result!r}"
        )
    return result


def features_and_labels(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset, if its elements are features or (features, labels).

    Raises:
        ValueError: If they are tuples of another length.
    """
    element = dataset.element_spec
    if isinstance(element, tuple) and len(element) != 2:
        raise ValueError(
            "input_fn should return (features, labels) as a len 2 tuple. The elements of its "
            "dataset are features alone, no tuple, or such pairs; several features go into a "
            f"dict. Received a tuple of {len(element)}: {element}"
        )
    return dataset


def features_only(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset without its labels, as tuples of one member.

    Raises:
        ValueError: If its elements are tuples of another length than (features, labels).
    """
    features_and_labels(dataset)
    if isinstance(dataset.element_spec, tuple):
        return dataset.map(lambda features, labels: (features,))
    return dataset
