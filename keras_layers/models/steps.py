"""Steps of an epoch, split into executions between visits of the device to the host."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.keras_layers.models.data import Data
from tensorflow_ipu.util.notices import warn_once


@dataclasses.dataclass(frozen=True)
class Steps:
    """How many steps one call of `fit`, `evaluate` or `predict` runs, and in which executions.

    A step is one batch on one replica.

    Attributes:
        per_epoch: Steps of each replica in an epoch.
        per_execution: Steps of each replica in one execution; divides `executed`.
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
    padding: int = 0

    @property
    def executed(self) -> int:
        """Steps of each replica in an epoch, steps of padding alone included."""
        return self.per_epoch + self.padding // self.replicas

    @property
    def batches(self) -> int:
        """Batches of the data in an epoch."""
        return self.executed * self.replicas - self.padding


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
        data: the batches.
        argument: name of the argument for the batches of an epoch, for errors.
        requested: the user's argument: a number of batches, not divided by replicas.
        per_execution: `steps_per_execution`.
        replicas: number of replicas.
        epochs: number of epochs that run.

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


def plan_inference(
    data: Data,
    argument: str,
    requested: int | None,
    per_execution: int,
    replicas: int,
    stages: int = 1,
) -> Steps:
    """Plans the steps of `evaluate` or `predict`, which run all batches.

    Where replicas and executions take more batches than there are, padding follows.

    Args:
        data: the batches.
        argument: name of the argument for the number of batches, for errors.
        requested: the user's argument: a number of batches, not divided by replicas.
        per_execution: `steps_per_execution`.
        replicas: number of replicas.
        stages: number of pipeline stages.

    Raises:
        ValueError: If the number of batches is not known, or more than there are.
    """
    batches = _batches(data, argument, requested)
    steps = -(-batches // replicas)
    # Twice the stages are enough for any schedule.
    most = _rounded_up(steps, 2 * stages if steps % stages else stages)
    per_execution = _truncated(per_execution, most)
    _advise(per_execution, steps)
    executed = _rounded_up(steps, per_execution)
    return _padded(data, argument, requested, batches, replicas, executed, per_execution)


def plan_padded_training(
    data: Data,
    argument: str,
    requested: int | None,
    per_execution: int,
    replicas: int,
    accumulated: int,
) -> Steps:
    """Plans the steps of a `fit` that leaves no batch out: padding fills the last update.

    Args:
        data: the batches.
        argument: name of the argument for the batches of an epoch, for errors.
        requested: the user's argument: all batches, or None.
        per_execution: `steps_per_execution`.
        replicas: number of replicas.
        accumulated: batches of each replica for one update.

    Raises:
        ValueError: If the number of batches is not known, or `per_execution` does not divide the
            steps of an epoch.
    """
    batches = _batches(data, argument, requested)
    executed = _rounded_up(-(-batches // replicas), accumulated)
    per_execution = _per_execution(per_execution, executed)
    return _padded(data, argument, requested, batches, replicas, executed, per_execution)


def _padded(
    data: Data,
    argument: str,
    requested: int | None,
    batches: int,
    replicas: int,
    executed: int,
    per_execution: int,
) -> Steps:
    _check_enough(data, argument, requested, batches, epochs=1)
    whole = requested is None or requested == data.size
    restarts = whole and not data.is_one_dataset
    padding = executed * replicas - batches
    return Steps(-(-batches // replicas), per_execution, replicas, restarts, padding=padding)


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


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
        if data.is_infinite:
            raise ValueError(
                "When providing an infinite dataset, you must specify the number of steps to run: "
                f"set `{argument}`. Could not infer the size of the data from an infinitely "
                "repeating dataset."
            )
        raise ValueError(
            "Could not infer the size of the data. You must specify the number of steps to run: "
            f"set `{argument}`, or use dataset.apply(tf.data.experimental.assert_cardinality(n))."
        )
    return data.size


def _per_execution(per_execution: int, steps: int) -> int:
    """Returns the steps of an execution after checking that they divide the steps of an epoch."""
    per_execution = _truncated(per_execution, steps)
    if steps % per_execution:
        raise ValueError(
            f"`steps_per_execution` ({per_execution}) must be a divisor of the number of batches "
            f"that each replica runs in an epoch ({steps}), because every execution of a program "
            "runs the same number of steps. Choose another `steps_per_execution` in compile(), or "
            "another number of batches."
        )
    _advise(per_execution, steps)
    return per_execution


def _truncated(per_execution: int, steps: int) -> int:
    """Limits the steps of an execution to the steps of an epoch, with a warning."""
    if per_execution > steps:
        warn_once(
            "`steps_per_execution` (%d) is larger than the number of steps of an epoch (%d). It is "
            "truncated to %d.",
            per_execution,
            steps,
            steps,
        )
    return min(per_execution, steps)


# Steps of an epoch from which visits of the host are worth a word.
_MANY_STEPS = 1000


def _advise(per_execution: int, steps: int) -> None:
    if per_execution == 1 and steps >= _MANY_STEPS:
        warn_once(
            "The model has been configured with steps_per_execution=1, so the host is visited "
            "after every step. Set a larger `steps_per_execution` in compile() for more speed."
        )


def _check_enough(
    data: Data, argument: str, requested: int | None, consumed: int, epochs: int
) -> None:
    """Raises if a dataset is known to end too early."""
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
