"""Compiled programs of a Keras model: steps on the device, data in, results out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler import current_scope, launch
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common, ipu_infeed_queue, ipu_outfeed_queue
from tensorflow_ipu.feeds.ipu_infeed_queue import DataInfeedQueue, IPUInfeedQueue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from tensorflow_ipu.keras_layers import layer_lines, partial_batches
from tensorflow_ipu.keras_layers.models import checks
from tensorflow_ipu.keras_layers.optimizers import gradient_accumulation
from tensorflow_ipu.keras_layers.pipelining import listing, stage_scope
from tensorflow_ipu.keras_layers.pipelining import pipeline_programs as pipelined
from tensorflow_ipu.ops import grad_util_ops, optimizer_steps

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


# --- Training step ---

# Makes a step of an optimizer. Takes the loss, the variables and the tape that recorded it;
# returns an operation that has to run.
_Minimize = Callable[[tf.Tensor, Any, tf.GradientTape], Any]


def train_step(model: IPUModel, sizes: Sequence[int] = ()) -> Callable[[Any], dict[str, Any]]:
    """Returns the training step of a model.

    Args:
        model: an extended model that is not pipelined.
        sizes: the numbers of real rows that batches have, if they are padded: the step then takes
            pairs of data and marks (see `padding.Batches`).

    Returns:
        A function from the data of a step to its logs. It is the model's own step or else Keras's,
        unless gradients are accumulated or captured, or batches are padded.

    Raises:
        RuntimeError: If batches are padded and the model has a step of its own.
    """
    if checks.is_overridden(model, "train_step"):
        if sizes:
            raise RuntimeError(
                f"The function `train_step` for the model {model.name} has been overridden, and "
                "fit() leaves padding out of losses and metrics in Keras's own step only. Use "
                "data whose number is a multiple of the batch size."
            )
        return functools.partial(_step_of_model, model)
    optimizer = model.optimizer
    minimize: _Minimize = functools.partial(optimizer_steps.minimize, optimizer)
    if checks.accumulation_steps(model) > 1:
        minimize = functools.partial(_accumulated, model)
    elif not sizes and not optimizer_steps.takes_captured_gradients(optimizer):
        return functools.partial(_step_of_model, model)
    if sizes:
        return lambda element: _padded_step(model, element, minimize, sizes)
    return lambda data: _step(model, data, minimize)


def _step_of_model(model: IPUModel, data: Any) -> dict[str, Any]:
    """Runs the model's own step, with a context for layers that capture gradients."""
    with grad_util_ops.GradientCaptureContext():
        logs: dict[str, Any] = model.train_step(data)
    return logs


def _step(model: IPUModel, data: Any, minimize: _Minimize) -> dict[str, Any]:
    """Runs Keras's training step with another way to minimize the loss."""
    x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight)
    model._validate_target_and_loss(y, loss)
    update = minimize(loss, model.trainable_variables, tape)
    with tf.control_dependencies([] if update is None else [update]):
        return model.compute_metrics(x, y, y_pred, sample_weight)


def _padded_step(
    model: IPUModel, element: Any, minimize: _Minimize, sizes: Sequence[int]
) -> dict[str, Any]:
    """Runs Keras's training step on the real rows of a batch."""
    data, marks = element
    batch = tf.keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = model(batch[0], training=True)
        added = partial_batches.adding_layers(model)
        loss, logs = partial_batches.loss_and_logs(
            model, sizes, marks, batch, y_pred, list(model.losses), training=True
        )
    partial_batches.warn_of_whole_batches(model, added)
    update = minimize(loss, model.trainable_variables, tape)
    with tf.control_dependencies([] if update is None else [update]):
        return tf.nest.map_structure(tf.identity, logs)


def _accumulated(
    model: IPUModel, loss: tf.Tensor, variables: Any, tape: tf.GradientTape
) -> tf.Operation:
    """Updates the weights after the last of several mini-batches."""
    options = model._ipu_options
    return gradient_accumulation.minimize_accumulated(
        model.optimizer,
        loss,
        variables,
        tape,
        checks.accumulation_steps(model),
        options.gradient_accumulation_reduction_method,
        **options.gradient_accumulation_optimizer_kwargs,
    )


# --- Programs ---

TRAIN = "train"
TEST = "test"
PREDICT = "predict"
# Attribute of models with their programs.
_PROGRAMS = "_ipu_programs"
# Adds all steps to the function being traced. Takes the infeed; returns the operation that runs
# them, and the form of what one step sends to the outfeed.
_Builder = Callable[[IPUInfeedQueue, IPUOutfeedQueue, int], tuple[tf.Operation, Any]]


class ModelProgram:
    """A program that runs a fixed number of steps of a model at each call.

    Attributes:
        steps: Steps of each replica in one execution.
        every_step: Whether the outfeed keeps the results of all steps, or of the last one only.
    """

    def __init__(
        self,
        model: IPUModel,
        mode: str,
        dataset: tf.data.Dataset,
        steps: int,
        replicas: int,
        every_step: bool,
        sizes: tuple[int, ...] = (),
    ) -> None:
        """Makes a program; it is traced when it first runs.

        Args:
            model: an extended model.
            mode: `TRAIN`, `TEST` or `PREDICT`.
            dataset: the first dataset: see `restart`.
            steps: steps of each replica in one execution.
            replicas: number of replicas that will run it.
            every_step: whether the results of every step are wanted.
            sizes: the numbers of real rows that batches have, if there is padding that losses and
                metrics must not see: see `padding.Batches`.
        """
        options = model._ipu_options
        self.steps = steps
        self.every_step = every_step
        self._replicas = replicas
        # Whether zeros are to take the place of results that the device has not sent.
        self._zeros_due = False
        self._strategy = model.distribute_strategy
        self._infeed = DataInfeedQueue(dataset, device_ordinal=None, **options.infeed_kwargs)
        self._outfeed = IPUOutfeedQueue(
            outfeed_mode=IPUOutfeedMode.ALL if every_step else IPUOutfeedMode.LAST,
            device_ordinal=None,
            **options.outfeed_kwargs,
        )
        self._structure: Any = None
        build = functools.partial(self._build, model, _builder(model, mode, sizes))
        self._function = tf.function(
            functools.partial(layer_lines.in_line_of_compile, model, build), jit_compile=True
        )

    @property
    def traced(self) -> Any:
        """The `tf.function` that has the graph of the program once it has run."""
        return launch.without_jit(self._function)

    def restart(self, dataset: tf.data.Dataset) -> None:
        """Restarts the data at the beginning of a dataset for the next execution.

        Args:
            dataset: with elements of the same types and shapes as the first one.
        """
        self._infeed.restart(dataset)
        if self.every_step:
            # An execution that failed, or whose callbacks did, has left results behind.
            self.results()
        self._zeros_due = False

    def run(self) -> None:
        """Executes the program once, and waits for it."""
        # Scopes belong to threads, and this may be another than that of the call of `fit`.
        with self._strategy.scope():
            self._strategy.run(self._function)
        self._zeros_due = common.is_synthetic(SyntheticDataCategory.Outfeed)

    def results(self) -> Any:
        """Takes the results that have arrived on the host since the last call.

        Returns:
            What a step gives, with NumPy arrays `[R, ...]` if only the last step is wanted, else
            `[n, R, ...]` for the `n` steps that have ended. Without the dimension of the replicas
            if there is one replica. None before anything could be sent.
        """
        if self._structure is None:
            return None  # still being traced, in another thread
        if common.is_synthetic(SyntheticDataCategory.Outfeed):
            return self._zeros()
        taken = [tensor.numpy() for tensor in tf.nest.flatten(self._outfeed.dequeue())]
        return tf.nest.pack_sequence_as(self._structure, taken)

    def _zeros(self) -> Any:
        """Returns zeros for results where no data move from the device; None if nothing ran."""
        if not self._zeros_due:
            return None
        self._zeros_due = False
        leading = [self.steps] if self.every_step else []
        leading += [self._replicas] if self._replicas > 1 else []
        zeros = [
            np.zeros([*leading, *spec.shape], spec.dtype.as_numpy_dtype)
            for spec in tf.nest.flatten(ipu_outfeed_queue.feed_of(self._outfeed).element_spec)
        ]
        return tf.nest.pack_sequence_as(self._structure, zeros)

    def _build(self, model: IPUModel, builder: _Builder) -> None:
        with tf.variable_creator_scope(_made_at_once), stage_scope.recorded() as stages:
            operation, structure = builder(self._infeed, self._outfeed, self.steps)
        if not model._is_pipelined():
            listing.check_none_opened(model, stages)
        self._structure = structure
        with tf.control_dependencies([operation]):
            tf.no_op()


def of(
    model: IPUModel,
    mode: str,
    dataset: tf.data.Dataset,
    steps: int,
    replicas: int,
    every_step: bool,
    sizes: tuple[int, ...] = (),
) -> ModelProgram:
    """Returns the program of a model for a mode and a form of data, made at the first call.

    The arguments are those of `ModelProgram`.
    """
    spec = dataset.element_spec
    # A program is traced in the scope of one strategy, and runs in it.
    key = (mode, repr(spec), steps, replicas, every_step, sizes, model.distribute_strategy)
    # Not an attribute as Keras knows them: it is not part of the model.
    made: dict[Any, ModelProgram] = model.__dict__.setdefault(_PROGRAMS, {})
    if key not in made:
        made[key] = ModelProgram(model, mode, dataset, steps, replicas, every_step, sizes)
    return made[key]


def drop(model: IPUModel) -> None:
    """Forgets all programs of a model."""
    model.__dict__.pop(_PROGRAMS, None)


def _made_at_once(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    """Makes a variable when the trace comes to it.

    TensorFlow would make it after the trace, and trace a second time. That takes as long again,
    and what a user's optimizer or layer does in Python would be done twice.
    """
    if not tf.is_symbolic_tensor(kwargs.get("initial_value")):
        kwargs["experimental_enable_variable_lifting"] = False
    return next_creator(**kwargs)


def _builder(model: IPUModel, mode: str, sizes: tuple[int, ...]) -> _Builder:
    """Returns the function that adds the steps of a mode to a program."""
    if model._is_pipelined():
        pipelines: dict[str, Callable[..., Any]] = {
            TRAIN: functools.partial(pipelined.train, sizes=sizes),
            TEST: functools.partial(pipelined.evaluate, sizes=sizes),
            PREDICT: pipelined.predict,
        }
        return functools.partial(pipelines[mode], model)
    make_step = {
        TRAIN: lambda: train_step(model, sizes),
        TEST: lambda: lambda data: model.test_step(data),
        PREDICT: lambda: lambda data: model.predict_step(data),
    }[mode]
    converted = tensorflow_hooks.converted(make_step())
    if sizes and mode == TEST:
        converted = partial_batches.whole_step(converted, sizes)
    return functools.partial(_loop, converted)


def _loop(
    one_step: Callable[[Any], Any], infeed: IPUInfeedQueue, outfeed: IPUOutfeedQueue, steps: int
) -> tuple[tf.Operation, Any]:
    """Adds a loop over steps to a program."""
    form: list[Any] = []

    def body() -> tf.Operation:
        batch = ipu_infeed_queue.feed_of(infeed).dequeue()
        with current_scope.variables_outside_of_loop():
            results = one_step(batch)
        form[:] = [tf.nest.map_structure(lambda _: 0, results)]
        return outfeed.enqueue(tf.nest.flatten(results))

    return loops.repeat(steps, body), form[0]
