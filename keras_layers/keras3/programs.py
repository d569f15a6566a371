"""Programs of a Keras 3 model: some steps on the device, batches in, results out."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler import strategy_scope
from tensorflow_ipu.feeds import arrays
from tensorflow_ipu.hooks import tensorflow_hooks
from tensorflow_ipu.util.notices import warn_once

#: Takes the data of a step, and returns logs or predictions.
Step = Callable[[Any], Any]

_Arrays = tuple[npt.NDArray[Any], ...]


class Batch:
    """The data of one step, on the host.

    Attributes:
        structure: Argument of a step in Keras: tuples and dicts, with None for missing members.
        arrays: The tensors in it.
    """

    def __init__(self, data: Any) -> None:
        """Collects the tensors of a structure.

        Args:
            data: tensors or arrays, None, and TensorFlow's optionals, which stand for None.
        """
        flat = [None if _is_none(value) else np.asarray(value) for value in tf.nest.flatten(data)]
        self.structure = tf.nest.pack_sequence_as(data, [each is not None for each in flat])
        self.arrays: _Arrays = tuple(_for_device(each) for each in flat if each is not None)

    @functools.cached_property
    def form(self) -> tuple[Any, ...]:
        """Types, shapes and structure, which are equal for batches of one program."""
        shapes = tuple((each.dtype.name, each.shape) for each in self.arrays)
        return (repr(self.structure), shapes)


class Programs:
    """Programs of a step of a model, for batches of any form.

    Args:
        name: name of the model.
        step: its step.
        strategy: the `IPUStrategy` in whose scope it was made.
    """

    def __init__(self, name: str, step: Step, strategy: Any) -> None:
        self._step = step
        self._strategy = strategy
        self._name = name
        self._made: dict[Any, _Program] = {}

    def run(self, batches: list[Batch]) -> list[Any]:
        """Runs a step for each batch.

        Args:
            batches: the data. Batches in a row that are alike are for one program.

        Returns:
            The results of each step, with arrays for tensors.
        """
        results: list[Any] = []
        for form, alike in itertools.groupby(batches, lambda batch: batch.form):
            results += self._run_alike(form, list(alike))
        return results

    def _run_alike(self, form: Any, batches: list[Batch]) -> list[Any]:
        key = (form, len(batches))
        if key not in self._made:
            if self._made:
                warn_once(
                    "The model %r has a program for %d step(s) of data of %s besides others, and "
                    "each is compiled: a number of samples that batch_size divides, and of batches "
                    "that steps_per_execution divides, needs one only.",
                    self._name,
                    len(batches),
                    [each.shape for each in batches[0].arrays],
                )
            self._made[key] = _Program(self._step, self._strategy, batches[0], len(batches))
        return self._made[key].run(batches)


class _Program:
    """Program of a fixed number of steps on data of one form."""

    def __init__(self, step: Step, strategy: Any, form: Batch, steps: int) -> None:
        ordinal = strategy.device_ordinal
        self._strategy = strategy
        self._specs = [tf.TensorSpec(each.shape, each.dtype) for each in form.arrays]
        self._infeed = arrays.ArrayInfeed(self._specs, ordinal)
        self._outfeed = arrays.ArrayOutfeed(ordinal)
        self._steps = steps
        self._results: Any = None
        self._function = tf.function(
            functools.partial(self._build, tensorflow_hooks.converted(step), form.structure),
            jit_compile=True,
        )

    def run(self, batches: list[Batch]) -> list[Any]:
        """Executes the program once.

        Returns:
            The results of each step; zeros if the device sends synthetic data.
        """
        self._outfeed.drop()  # results of a failed execution
        each_tensor = zip(*(batch.arrays for batch in batches))
        self._infeed.fill(len(batches), [np.stack(values) for values in each_tensor])
        with self._strategy.scope():
            self._strategy.run(self._function)
        specs = tf.nest.flatten(self._results)
        taken = [np.zeros((self._steps, *spec.shape), spec.dtype.as_numpy_dtype) for spec in specs]
        self._outfeed.take(self._steps, taken)
        return [
            tf.nest.pack_sequence_as(self._results, [value[step] for value in taken])
            for step in range(self._steps)
        ]

    def _build(self, step: Step, structure: Any) -> None:
        """Adds a loop over steps to the program that is traced."""

        def body() -> tf.Operation:
            tensors = iter(self._infeed.dequeue())
            data = tf.nest.map_structure(
                lambda is_there: next(tensors) if is_there else None, structure
            )
            with strategy_scope.variables_outside_of_loop():
                results = step(data)
            self._results = tf.nest.map_structure(
                lambda value: tf.TensorSpec(value.shape, value.dtype), results
            )
            return self._outfeed.enqueue(tf.nest.flatten(results))

        with tf.control_dependencies([loops.repeat(self._steps, body)]):
            tf.no_op()


def read(iterator: Any, count: int) -> list[Batch]:
    """Reads the batches of one execution.

    Args:
        iterator: iterator of Keras, over a dataset or other data.
        count: limit of batches.

    Returns:
        At most `count` batches.

    Raises:
        StopIteration: There are none left.
    """
    batches = [Batch(data) for data in itertools.islice(_elements(iterator), count)]
    if not batches:
        raise StopIteration
    return batches


def _elements(iterator: Any) -> Iterator[Any]:
    try:
        yield from iterator
    except tf.errors.OutOfRangeError:
        return


def _is_none(value: Any) -> bool:
    return value is None or isinstance(value, tf.experimental.Optional)


def _for_device(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array of a type that the device has."""
    return array.astype(np.float32) if array.dtype == np.float64 else array
