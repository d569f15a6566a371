"""Counts the replicas of a Keras model, and combines the values that each has."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.device import system
from tensorflow_ipu.keras_layers.models.options.model_options import ReplicatedMetricReductionMethod


def replication_factor(ordinal: int, ipus: int) -> int:
    """Returns how many replicas of a model run on a device.

    Args:
        ordinal: the device, `/device:IPU:<ordinal>`.
        ipus: IPUs that the model has stages on: 1 if it is not pipelined.

    Raises:
        ValueError: If the device has fewer IPUs than the model needs.
    """
    needed = 1 << (ipus - 1).bit_length()
    current = system.current()
    available = current.device(ordinal).num_ipus
    if available < needed:
        raise ValueError(
            f"The device /device:IPU:{ordinal} has {available} IPU(s), but the current model "
            f"requires a multiple of {needed} IPUs: the highest that its stages name is "
            f"{ipus - 1}. {current.advice(needed)} Or put the stages of the model on fewer IPUs."
        )
    return current.replication_factor(ordinal, needed)


def reduced(
    value: np.ndarray,
    method: ReplicatedMetricReductionMethod,
    weights: np.ndarray | None = None,
) -> Any:
    """Returns one value for those of all replicas.

    Args:
        value: a value of each replica, `[replicas, ...]`.
        method: how to reduce it.
        weights: what each replica counts for in a mean; None for all the same.

    Returns:
        The value of the last replica, or the sum or mean; for `LIST`, the list of all of them.
    """
    if method is ReplicatedMetricReductionMethod.LIST:
        return list(value)
    if method is ReplicatedMetricReductionMethod.SUM:
        return np.sum(value, axis=0)
    if method is ReplicatedMetricReductionMethod.MEAN:
        return np.average(value, axis=0, weights=weights)
    return value[-1]
