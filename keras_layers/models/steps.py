"""How many steps a device runs, and how often the host is visited."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.configs.notices import warn_once
from tensorflow_ipu.keras_layers.models.data import Data


@dataclasses.dataclass(frozen=True)
class Steps:
    """What one call of `fit`, `evaluate` or `predict` runs.

    A step is one batch on one replica.

    Attributes:
        per_epoch: Steps of each replica in an epoch.
        per_execution: Steps of each replica in one execution; divides `per_epoch`.
        replicas: Number of replicas: batches of one step of all.
        restarts: Whether the dataset starts afresh with each epoch.
        left_out: Batches at the end of each epoch that replicas do not share evenly, where all
            epochs are in one dataset.
    """

    per_epoch: int
    per_execution: int
    replicas: int
    restarts: bool
    left_out: int = 0


def plan(
    data: Data,
    argument: str,
    requested: int | None,
    per_execution: int,
    replicas: int,
    epochs: int = 1,
) -> Steps:
    """Plans the steps of a call.

    Args:
        data: The batches.
        argument: Name of the argument for the batches of an epoch, for errors.
        requested: What the user passed for it: a number of batches, not divided by replicas.
        per_execution: `steps_per_execution`.
        replicas: Number of replicas.
        epochs: Number of epochs that run.

    Raises:
        ValueError: If the number of batches is not known, or too small, or no multiple of what
            one execution takes.
    """
    batches = _batches(data, argument, requested)
    steps = batches // replicas
    if steps == 0:
        raise ValueError(
            f"The data have {batches} batch(es) for an epoch, but {replicas} replicas are "
            "requested to run, and each needs at least one. Use more data, a smaller batch size, "
            "or a device with fewer IPUs."
        )
    if batches % replicas:
        warn_once(
            "%d of %d batches of an epoch are left out: they do not divide into %d replicas.",
            batches % replicas,
            batches,
            replicas,
        )
    per_execution = _per_execution(per_execution, steps)
    _check_enough(data, argument, requested, steps * replicas, epochs)
    whole = requested is None or requested == data.size
    left_out = batches % replicas if whole and data.is_one_dataset else 0
    return Steps(steps, per_execution, replicas, whole and not data.is_one_dataset, left_out)


def _batches(data: Data, argument: str, requested: int | None) -> int:
    """Returns the number of batches of an epoch."""
    if requested is not None:
        if isinstance(requested, bool) or int(requested) != requested or requested <= 0:
            raise ValueError(
                f"Unexpected value for `{argument}`: expected a positive number of batches. "
                f"Received: {requested!r}"
            )
        return int(requested)
    if data.size is None:
        raise ValueError(
            "Could not infer the size of the data"
            + (" from an infinitely repeating dataset" if data.is_infinite else "")
            + f". You must specify the number of steps to run: set `{argument}`, or "
            "use dataset.apply(tf.data.experimental.assert_cardinality(n))."
        )
    return data.size


def _per_execution(per_execution: int, steps: int) -> int:
    """Returns the steps of an execution, once checked against those of an epoch."""
    if per_execution > steps:
        warn_once(
            "`steps_per_execution` (%d) is larger than the number of steps of an epoch (%d). It is "
            "truncated to %d.",
            per_execution,
            steps,
            steps,
        )
        per_execution = steps
    if steps % per_execution:
        raise ValueError(
            f"`steps_per_execution` ({per_execution}) must be a divisor of the number of batches "
            f"that each replica runs in an epoch ({steps}), because every execution of a program "
            "runs the same number of steps. Choose another `steps_per_execution` in compile(), or "
            "another number of batches."
        )
    if per_execution == 1 and steps > 1:
        warn_once(
            "The model has been configured with steps_per_execution=1, so the host is visited "
            "after every step. Set a larger `steps_per_execution` in compile() for more speed."
        )
    return per_execution


def _check_enough(
    data: Data, argument: str, requested: int | None, consumed: int, epochs: int
) -> None:
    """Refuses a dataset that is known to end too early."""
    if requested is None or data.size is None:
        return
    if data.is_one_dataset:
        enough = requested <= data.size
        wanted = requested
    else:
        wanted = consumed * (1 if requested == data.size else epochs)
        enough = wanted <= data.size
    if not enough:
        raise ValueError(
            f"Your input does not have enough data: {wanted} batches are needed for "
            f"{epochs} epoch(s) of {argument}={requested}, and there are {data.size}. Use "
            "dataset.repeat(), fewer epochs or fewer steps."
        )
