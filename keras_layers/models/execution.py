"""Executing the steps of an epoch, and telling callbacks about them."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.keras_layers.models import programs, replicas
from tensorflow_ipu.keras_layers.models.data import Data, without_remainder
from tensorflow_ipu.keras_layers.models.options import ReplicatedMetricReductionMethod
from tensorflow_ipu.keras_layers.models.steps import Steps

# Attributes of models with the number of steps that have ended. Keras counts in its own steps.
_COUNTERS = {
    programs.TRAIN: "_train_counter",
    programs.TEST: "_test_counter",
    programs.PREDICT: "_predict_counter",
}

# Seconds between two looks at what a running program has sent to the host.
_POLL_INTERVAL = 0.001


@dataclasses.dataclass(frozen=True)
class Hooks:
    """What is called for a batch.

    Attributes:
        begin: Called with the number of a step, before it runs.
        end: Called with the number of a step and its results.
    """

    begin: Callable[[int], None]
    end: Callable[[int, Any], None]


class Runner:
    """Runs a model over the steps of one call of `fit`, `evaluate` or `predict`.

    Attributes:
        steps: What is run.
    """

    def __init__(self, model: Any, mode: str, data: Data, steps: Steps) -> None:
        """Finds or makes the program.

        Args:
            model: An extended model.
            mode: A mode of `programs`.
            data: The batches.
            steps: What to run.
        """
        self.steps = steps
        self._model = model
        self._dataset = without_remainder(data, steps.left_out)
        accumulates = model._is_pipelined() and bool(
            model._ipu_options.pipelining_accumulate_outfeed
        )
        self._predicts = mode == programs.PREDICT
        self._asynchronous = model._ipu_options.asynchronous_callbacks and (
            self._predicts or not accumulates
        )
        # Sums over mini-batches need an outfeed that keeps all.
        every_step = self._predicts or self._asynchronous or accumulates
        self._program = model._ipu_program(
            mode, self._dataset, steps.per_execution, steps.replicas, every_step
        )
        self._counter: tf.Variable = getattr(model, _COUNTERS[mode])
        self._started = False

    def rewind(self) -> None:
        """Lets the next epoch begin with the first batch."""
        self._started = False

    def epoch(self, hooks: Hooks, first: int = 0) -> Iterator[Any]:
        """Runs an epoch, one execution for each value that is taken.

        Args:
            hooks: What to call for batches.
            first: Number of the first step to run.

        Yields:
            The results of each execution: for predictions those of all its steps, else those of
            the last one.
        """
        if not self._started:
            self._program.restart(self._dataset)
            self._started = True
        if self.steps.restarts:
            # In the first epoch for the second time. So does Keras, and a dataset that shuffles
            # has another order each time.
            self._program.restart(self._dataset)
        for step in range(first, self.steps.per_epoch, self.steps.per_execution):
            run = self._run_asynchronously if self._asynchronous else self._run
            yield run(step, hooks)

    def _run(self, step: int, hooks: Hooks) -> Any:
        hooks.begin(step)
        self._program.run()
        results = self._in_one(self._program.results())
        self._counter.assign_add(self.steps.per_execution)
        hooks.end(step + self.steps.per_execution - 1, results)
        return results

    def _run_asynchronously(self, step: int, hooks: Hooks) -> Any:
        """Executes in another thread, and calls the hooks while that goes on."""
        taken: list[Any] = []
        # Closed, so that an error in a hook is not seen before the device has stopped.
        with contextlib.closing(self._results_while_running()) as running:
            for number, results in enumerate(running):
                taken.append(results)
                now = step + number // self.steps.replicas
                hooks.begin(now)
                if number % self.steps.replicas == 0:
                    self._counter.assign_add(1)
                hooks.end(now, results)
        if self._predicts:
            return tf.nest.map_structure(
                lambda *values: np.concatenate([np.atleast_1d(value) for value in values]), *taken
            )
        if self.steps.replicas == 1:
            return taken[-1]
        last = taken[-self.steps.replicas :]
        return tf.nest.map_structure(lambda *values: self._reduced(np.stack(values)), *last)

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

    def _in_one(self, results: Any) -> Any:
        """Returns the results of one execution as callbacks get them."""
        if self._predicts:
            return tf.nest.map_structure(self._joined, results)
        if self._program.every_step:
            results = tf.nest.map_structure(lambda value: value[-1], results)
        if self.steps.replicas == 1:
            return tf.nest.map_structure(_plain, results)
        return tf.nest.map_structure(self._reduced, results)

    def _joined(self, value: np.ndarray) -> np.ndarray:
        """Joins steps, replicas and batches, in the order of the dataset."""
        value = self._by_replica(value)
        shape = value.shape[2:]
        if not shape:
            return value.reshape(-1)
        return value.reshape(-1, *shape[1:])

    def _reduced(self, value: np.ndarray) -> Any:
        """Returns one value for those of all replicas."""
        method = self._model._ipu_options.replicated_metric_reduction_method
        reduced = replicas.reduced(value, method)
        if method is ReplicatedMetricReductionMethod.LIST:
            return [_plain(one) for one in reduced]
        return _plain(reduced)


def _plain(value: Any) -> Any:
    """Returns a scalar as a number of Python's."""
    return value.item() if np.ndim(value) == 0 else value
