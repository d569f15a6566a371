"""Runs the steps of an epoch and calls the callbacks."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.keras_layers.models import padding, replicas
from tensorflow_ipu.keras_layers.models.options.model_options import ReplicatedMetricReductionMethod
from tensorflow_ipu.keras_layers.models.programs import ModelProgram
from tensorflow_ipu.keras_layers.models.results import ReplicaLogs, joined
from tensorflow_ipu.keras_layers.models.steps import Steps
from tensorflow_ipu.runtime import interpreter

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
    """What callbacks for batches get, and when.

    Attributes:
        predictions: Whether they get the outputs of all steps, not the logs of the last one.
        asynchronous: Whether they are called for each step, while the device runs.
        reduction: What becomes of the logs of several replicas.
    """

    predictions: bool
    asynchronous: bool
    reduction: ReplicatedMetricReductionMethod


class Runner:
    """Runs a model over the steps of one call of `fit`, `evaluate` or `predict`.

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
            program: what makes `steps.per_execution` steps.
            batches: what it reads.
            steps: what to run.
            counter: counts the steps that have ended.
            delivery: what callbacks get, and when.
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
        """Lets the next epoch begin with the first batch."""
        self._started = False

    def epoch(self, hooks: Hooks, first: int = 0) -> Iterator[Any]:
        """Runs an epoch, one execution for each value that is taken.

        Args:
            hooks: what to call for batches.
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
        """Yields what has been sent, step by step and replica by replica."""
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
        """Returns one value for those of all replicas."""
        reduced = replicas.reduced(value, self._delivery.reduction, weights)
        if self._delivery.reduction is ReplicatedMetricReductionMethod.LIST:
            return [_plain(one) for one in reduced]
        return _plain(reduced)


def _plain(value: Any) -> Any:
    """Returns a scalar as a number of Python's."""
    return value.item() if np.ndim(value) == 0 else value
