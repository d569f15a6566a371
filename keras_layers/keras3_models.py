"""Keras 3 models made in the scope of an IPUStrategy: programs, and hooks that run them."""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.feeds import native_feeds
from tensorflow_ipu.runtime import system
from tensorflow_ipu.util.notices import warn_once

# --- Programs ---

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
        self._infeed = native_feeds.ArrayInfeed(self._specs, ordinal)
        self._outfeed = native_feeds.ArrayOutfeed(ordinal)
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
            with current_scope.variables_outside_of_loop():
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


# --- Hooks ---

# Keras 3 makes a function of a model's step before it runs it, in `make_train_function` and the
# like. For models of an `IPUStrategy` that function runs programs, each a loop over the steps of an
# execution. All else, such as data, callbacks and metrics, is Keras's own.

# Keras's function for steps: it takes an iterator and returns logs, or takes data and returns
# outputs.
_Function = Callable[[Any], Any]
_HOOKED = "_ipu_hooked"


def install() -> None:
    """Hooks Keras 3, if the program has loaded it and it is not hooked yet."""
    keras: Any = sys.modules.get("keras")
    if not str(getattr(keras, "__version__", "")).startswith("3."):
        return
    if keras.config.backend() != "tensorflow":
        return  # which has no strategies
    trainer = importlib.import_module("keras.src.backend.tensorflow.trainer").TensorFlowTrainer
    if _HOOKED in vars(trainer):
        return
    for mode, make in (("train", _train), ("test", _test), ("predict", _predict)):
        name = f"make_{mode}_function"
        setattr(trainer, name, _hooked(getattr(trainer, name), f"{mode}_function", make))
    setattr(trainer, _HOOKED, True)


def _hooked(original: Any, attribute: str, make: Callable[[Any, Any], _Function]) -> Any:
    """Returns a method that makes a function, for models on the IPU or elsewhere.

    Args:
        original: the method of Keras.
        attribute: where models keep the function.
        make: makes it for a model and its `IPUStrategy`.
    """

    @functools.wraps(original)
    def method(self: Any, force: bool = False) -> Any:
        strategy = self._distribute_strategy
        on_ipu = isinstance(strategy, current_scope.DeviceStrategy)
        if not on_ipu or not strategy.enable_keras_extensions:
            return original(self, force)
        if getattr(self, attribute) is None or force:
            _check(self, strategy)
            setattr(self, attribute, make(self, strategy))
        return getattr(self, attribute)

    return method


def _train(model: Any, strategy: Any) -> _Function:
    return _logs(model, Programs(model.name, model.train_step, strategy))


def _test(model: Any, strategy: Any) -> _Function:
    return _logs(model, Programs(model.name, model.test_step, strategy))


def _logs(model: Any, made: Programs) -> _Function:
    """Returns a function that gives the logs of the last step of an execution."""

    def function(iterator: Any) -> Any:
        return made.run(read(iterator, model.steps_per_execution))[-1]

    return function


def _predict(model: Any, strategy: Any) -> _Function:
    made = Programs(model.name, model.predict_step, strategy)

    def function(data: list[Any]) -> Any:
        outputs = made.run([Batch(batch) for batch in data])
        return tf.nest.map_structure(lambda *each: tf.constant(np.concatenate(each)), *outputs)

    return function


def _check(model: Any, strategy: Any) -> None:
    """Raises for features that programs of Keras 3 models lack."""
    if model.run_eagerly:
        raise RuntimeError(
            f"The model {model.name!r} was compiled with run_eagerly=True, but models made in the "
            "scope of an IPUStrategy run as compiled programs. Compile it without, or make it "
            "outside of the scope."
        )
    replicas = system.current().replication_factor(strategy.device_ordinal, 1)
    if replicas > 1:
        raise NotImplementedError(
            f"The model {model.name!r} is one of Keras 3, which runs on one IPU, but "
            f"{strategy.ipu_device} has {replicas}. Configure auto_select_ipus = 1; or make it "
            "with tf.keras of a program that imports ipu, which is Keras 2 and has replicas and "
            "pipelines, with the environment variable TF_USE_LEGACY_KERAS unset or 1."
        )
