"""Execution of an epoch: its steps, callbacks, and the values of replicas."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.keras_layers.models import padding
from tensorflow_ipu.keras_layers.models.model_options import ReplicatedMetricReductionMethod
from tensorflow_ipu.keras_layers.models.programs import ModelProgram
from tensorflow_ipu.keras_layers.models.steps import Steps
from tensorflow_ipu.runtime import interpreter, system

# --- Replicas ---


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


def reduced_over_replicas(
    value: np.ndarray,
    method: ReplicatedMetricReductionMethod,
    weights: np.ndarray | None = None,
) -> Any:
    """Reduces the values of all replicas to one.

    Args:
        value: a value of each replica, `[replicas, ...]`.
        method: how to reduce it.
        weights: weights of the replicas in a mean; None for all the same.

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


# --- Results ---


def joined(value: np.ndarray, rows: np.ndarray | None, full: int) -> np.ndarray:
    """Joins steps, replicas and batches of an output of a model.

    Args:
        value: the output, `[steps, replicas, ...]`.
        rows: real rows of each batch, `[steps, replicas]`; None if all are.
        full: rows of a batch with padding.

    Returns:
        The output for all real rows, in the order of the data.

    Raises:
        ValueError: If some rows of a batch are padding, and the first dimension of the output is
            not that of the rows.
    """
    real = value if rows is None else value[rows > 0]
    shape = value.shape[2:]
    whole = real.reshape(-1, *shape[1:])
    if rows is None or (rows[rows > 0] == full).all():
        return whole
    counts = rows[rows > 0]
    if shape[:1] != (full,):
        raise ValueError(
            f"The data have a partial batch of {counts.min()} instead of {full} rows, and an "
            f"output of the model has the shape {shape}, so that what belongs to the padding of "
            "that batch cannot be dropped from it. Return outputs whose first dimension is that of "
            "the rows, or use data whose number is a multiple of the batch size."
        )
    return whole[(np.arange(full) < counts[:, np.newaxis]).ravel()]


class ReplicaLogs:
    """The logs of replicas, each as of the last step in which it had data."""

    def __init__(self, number: int) -> None:
        """Begins an epoch.

        Args:
            number: number of replicas.
        """
        self._logs: list[Any] = [None] * number
        self._rows = np.zeros(number, np.int64)

    def add(self, replica: int, logs: Any, rows: int) -> None:
        """Takes the logs of a replica.

        Args:
            replica: its index.
            logs: logs that it has sent after a step.
            rows: real rows that it has seen since the last call.
        """
        self._logs[replica] = logs
        self._rows[replica] += rows

    def add_execution(self, logs: Any, rows: np.ndarray) -> None:
        """Takes the logs of an execution.

        Args:
            logs: values `[n, replicas, ...]`: of each step, or at the end of as many steps each.
            rows: real rows of each batch, `[steps, replicas]`.
        """
        values = tf.nest.flatten(logs)
        rows = rows.reshape(len(values[0]), -1, rows.shape[1])
        for replica in range(rows.shape[2]):
            real = (rows[:, :, replica] > 0).sum(1)
            if real.any():
                last = np.flatnonzero(real)[-1]
                now = [value[last, replica] for value in values]
                self.add(replica, tf.nest.pack_sequence_as(logs, now), rows[:, :, replica].sum())

    def latest(self) -> tuple[list[Any], np.ndarray]:
        """Returns the logs of the replicas that have had data, and how many rows each has seen."""
        seen = [index for index, logs in enumerate(self._logs) if logs is not None]
        return [self._logs[index] for index in seen], self._rows[seen]


# --- Steps of an epoch ---

# Seconds between two looks at what a running program has sent to the host.
_POLL_INTERVAL = 0.001


@dataclasses.dataclass(frozen=True)
class Hooks:
    """The functions that are called before and after a batch.

    Attributes:
        begin: Called with the number of a step, before it runs.
        end: Called with the number of a step and its results.
    """

    begin: Callable[[int], None]
    end: Callable[[int, Any], None]


@dataclasses.dataclass(frozen=True)
class Delivery:
    """Values that the callbacks of batches get, and when they get them.

    Attributes:
        predictions: Whether they get the outputs of all steps, not the logs of the last one.
        asynchronous: Whether they are called for each step, while the device runs.
        reduction: What becomes of the logs of several replicas.
    """

    predictions: bool
    asynchronous: bool
    reduction: ReplicatedMetricReductionMethod


class Runner:
    """Runner of a model over the steps of one `fit`, `evaluate` or `predict`.

    Attributes:
        steps: What is run.
    """

    def __init__(
        self,
        program: ModelProgram,
        batches: padding.Batches,
        steps: Steps,
        counter: tf.Variable,
        delivery: Delivery,
    ) -> None:
        """Makes a runner, which runs nothing yet.

        Args:
            program: the program of `steps.per_execution` steps.
            batches: the batches to read.
            steps: the steps to run.
            counter: counts the steps that have ended.
            delivery: values for callbacks, and when they get them.
        """
        self.steps = steps
        self._program = program
        self._batches = batches
        self._counter = counter
        self._delivery = delivery
        self._started = False
        # Batches read since the infeed was restarted.
        self._position = 0
        self._logs = ReplicaLogs(steps.replicas)

    @property
    def traced(self) -> Any:
        """The `tf.function` that has the graph of the program once it has run."""
        return self._program.traced

    def rewind(self) -> None:
        """Resets the data so that the next epoch begins with the first batch."""
        self._started = False

    def epoch(self, hooks: Hooks, first: int = 0) -> Iterator[Any]:
        """Runs an epoch, one execution for each value that is taken.

        Args:
            hooks: the callbacks of batches.
            first: number of the first step to run.

        Yields:
            The results of each execution: for predictions those of all its steps, else those of
            the last one.
        """
        if not self._started:
            self._restart()
            self._started = True
        if self.steps.restarts:
            # In the first epoch for the second time. So does Keras, and a dataset that shuffles
            # has another order each time.
            self._restart()
        self._logs = ReplicaLogs(self.steps.replicas)
        for step in range(first, self.steps.executed, self.steps.per_execution):
            run = self._run_asynchronously if self._delivery.asynchronous else self._run
            yield run(step, hooks)

    def _restart(self) -> None:
        self._program.restart(self._batches.dataset)
        self._position = 0

    def _run(self, step: int, hooks: Hooks) -> Any:
        rows = self._next_rows()
        hooks.begin(step)
        self._program.run()
        results = self._in_one(self._program.results(), rows)
        end = min(step + self.steps.per_execution, self.steps.per_epoch)
        self._counter.assign_add(end - step)
        hooks.end(end - 1, results)
        return results

    def _next_rows(self) -> np.ndarray | None:
        """Returns the real rows of the next execution, `[steps, replicas]`; None if all are."""
        if self._batches.rows is None:
            return None
        read = np.arange(self.steps.per_execution * self.steps.replicas) + self._position
        self._position += len(read)
        rows = np.take(self._batches.rows, read, mode="wrap")
        return rows.reshape(-1, self.steps.replicas)

    def _run_asynchronously(self, step: int, hooks: Hooks) -> Any:
        """Executes in another thread, and calls the hooks while that goes on."""
        taken: list[Any] = []
        rows = self._next_rows()
        # Closed, so that an error in a hook is not seen before the device has stopped.
        with contextlib.closing(self._results_while_running()) as running:
            for number, results in enumerate(running):
                place = divmod(number, self.steps.replicas)
                if rows is not None and not rows[place]:
                    continue  # nothing but padding
                if rows is not None:
                    results = self._of_real_rows(results, place[1], rows[place])
                taken.append(results)
                now = step + place[0]
                hooks.begin(now)
                if place[1] == 0:
                    self._counter.assign_add(1)
                hooks.end(now, results)
        if self._delivery.predictions:
            return tf.nest.map_structure(
                lambda *values: np.concatenate([np.atleast_1d(value) for value in values]), *taken
            )
        if self.steps.replicas == 1:
            return taken[-1]
        if rows is not None:
            return self._latest_logs()
        last = taken[-self.steps.replicas :]
        return tf.nest.map_structure(lambda *values: self._reduced(np.stack(values)), *last)

    def _of_real_rows(self, results: Any, replica: int, rows: int) -> Any:
        """Returns the results of one replica in one step, for callbacks."""
        if not self._delivery.predictions:
            self._logs.add(replica, results, rows)
            return results
        step = np.array([[rows]])
        return tf.nest.map_structure(
            lambda value: joined(np.asarray(value)[None, None], step, self._batches.full),
            results,
        )

    def _results_while_running(self) -> Generator[Any, None, None]:
        """Yields the results of every step and replica of one execution."""
        failure: list[BaseException] = []

        def execute() -> None:
            try:
                self._program.run()
            except BaseException as error:  # goes on in the other thread
                failure.append(error)

        thread = threading.Thread(target=execute, name="ipu-execution")
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_POLL_INTERVAL)
                yield from self._waiting()
        except BaseException:
            # Ctrl-C, or an error in a hook, which closes this generator.
            interpreter.stop_launches(thread)
            raise
        finally:
            thread.join()
        if failure:
            raise failure[0]
        yield from self._waiting()

    def _waiting(self) -> Iterator[Any]:
        """Yields the results that have arrived, by step and replica."""
        batch = self._program.results()
        if batch is None:
            return
        flat = [self._by_replica(value) for value in tf.nest.flatten(batch)]
        for step in range(len(flat[0])):
            for replica in range(self.steps.replicas):
                now = [_plain(value[step][replica]) for value in flat]
                yield tf.nest.pack_sequence_as(batch, now)

    def _by_replica(self, value: np.ndarray) -> np.ndarray:
        """Returns a value `[n, ...]` of one replica as `[n, 1, ...]`."""
        return value if self.steps.replicas > 1 else value[:, np.newaxis]

    def _in_one(self, results: Any, rows: np.ndarray | None) -> Any:
        """Returns the results of one execution as callbacks get them."""
        if self._delivery.predictions:
            # In the order of the dataset.
            return tf.nest.map_structure(
                lambda value: joined(self._by_replica(value), rows, self._batches.full), results
            )
        if rows is not None:
            self._logs.add_execution(tf.nest.map_structure(self._by_replica, results), rows)
            return self._latest_logs()
        if self._program.every_step:
            results = tf.nest.map_structure(lambda value: value[-1], results)
        if self.steps.replicas == 1:
            return tf.nest.map_structure(_plain, results)
        return tf.nest.map_structure(self._reduced, results)

    def _latest_logs(self) -> Any:
        """Returns the logs as of the last steps with data."""
        logs, rows = self._logs.latest()
        if self.steps.replicas == 1:
            return tf.nest.map_structure(_plain, logs[0])
        return tf.nest.map_structure(lambda *values: self._reduced(np.stack(values), rows), *logs)

    def _reduced(self, value: np.ndarray, weights: np.ndarray | None = None) -> Any:
        """Reduces the values of all replicas to a plain number or array."""
        reduced = reduced_over_replicas(value, self._delivery.reduction, weights)
        if self._delivery.reduction is ReplicatedMetricReductionMethod.LIST:
            return [_plain(one) for one in reduced]
        return _plain(reduced)


def _plain(value: Any) -> Any:
    """Returns a scalar as a number of Python's."""
    return value.item() if np.ndim(value) == 0 else value
