"""Batches with fewer rows than the others: branches of a program, losses and metrics.

The shapes of a program are fixed. The host pads such batches to the size of the largest, and sends
with each batch a mark that says how many of its rows are real. What must not see the padding is in
the program once for each number of rows: a branch that first cuts the padding off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging
from tensorflow.python.ops import cond_v2

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import model_state

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


# Keras's name for the mask of a tensor.
_MASK = "_keras_mask"


def branches(
    mark: tf.Tensor,
    sizes: Sequence[int],
    function: Callable[[int], Any],
    differentiated: bool = False,
) -> Any:
    """Runs a function for the number of rows that a batch has.

    Args:
        mark: index of that number in `sizes`, a scalar int32 tensor.
        sizes: numbers of rows, the largest first. 0, which is then the last one, is a batch that
            is nothing but padding: for it nothing runs.
        function: takes a number of rows; returns a structure of values that have the same shapes
            for each number.
        differentiated: whether gradients of the values are to be computed.

    Returns:
        The values for the batch, as tensors; zeros where nothing runs.

    Raises:
        ValueError: If shapes depend on the number of rows.
    """
    made: list[list[tf.Tensor]] = []
    form: list[Any] = []

    def branch(size: int) -> list[tf.Tensor]:
        if size == 0:
            return [tf.zeros(value.shape, value.dtype) for value in made[0]]
        results = function(size)
        form[:] = [tf.nest.map_structure(lambda _: 0, results)]
        made.append([tf.convert_to_tensor(value) for value in tf.nest.flatten(results)])
        for value, first in zip(made[-1], made[0]):
            _check_shape(value, size, first, sizes[0])
        return made[-1]

    chosen = cond_v2.indexed_case(
        mark,
        [lambda size=size: branch(size) for size in sizes],
        name="rows",
        # What branches keep for the gradient is of different types. Lowered to a merge of them,
        # TensorFlow computes the same, but warns of an invalid graph.
        lower_using_switch_merge=False if differentiated else None,
    )
    return tf.nest.pack_sequence_as(form[0], tf.nest.flatten(chosen))


def _check_shape(value: tf.Tensor, size: int, first: tf.Tensor, padded: int) -> None:
    if value.shape != first.shape:
        raise ValueError(
            f"The data have a partial batch of {size} instead of {padded} rows, so what a step "
            "returns must not depend on their number: programs on the IPU have fixed shapes. "
            f"Received: a value of shape {value.shape} for {size} rows, and of shape "
            f"{first.shape} for {padded}. Return values without a dimension for the rows, or use "
            "data whose number is a multiple of the batch size."
        )


def without_padding(structure: Any, padded: int, size: int) -> Any:
    """Cuts off rows.

    Args:
        structure: tensors. Those whose first dimension is that of the rows are cut, with the masks
            that Keras has given them.
        padded: number of rows that there are.
        size: number of rows to keep, the first ones.

    Returns:
        The same structure.
    """

    def cut(tensor: Any) -> Any:
        if tensor is None or not tensor.shape.rank or tensor.shape[0] != padded:
            return tensor
        kept = tensor[:size]
        mask = getattr(tensor, _MASK, None)
        if mask is not None:
            setattr(kept, _MASK, cut(mask))
        return kept

    return structure if size == padded else tf.nest.map_structure(cut, structure)


def whole_step(step: Callable[[Any], Any], sizes: Sequence[int]) -> Callable[[Any], Any]:
    """Returns a step that does everything with the real rows only.

    Args:
        step: takes what Keras calls the data of a step.
        sizes: as for `branches`.

    Returns:
        A function of those data and their marks.
    """

    def marked(element: Any) -> Any:
        data, (mark, *_) = element
        return branches(mark, sizes, lambda size: step(without_padding(data, sizes[0], size)))

    return marked


# --- Losses and metrics ---

batch_normalization = keras2.module("layers.normalization.batch_normalization")
_PER_BATCH = (
    tf.keras.losses.Reduction.AUTO,
    tf.keras.losses.Reduction.SUM_OVER_BATCH_SIZE,
)


def loss_and_logs(
    model: IPUModel,
    sizes: Sequence[int],
    marks: Sequence[tf.Tensor],
    batch: tuple[Any, Any, Any],
    y_pred: Any,
    losses: list[Any],
    training: bool,
) -> tuple[tf.Tensor, Any]:
    """Computes the loss and updates the metrics of a model.

    Args:
        model: a compiled model.
        sizes: the numbers of real rows that batches have: see `partial_batches.branches`.
        marks: the index of the number that this batch has; its weight, if it is one of several
            batches that an update is made of.
        batch: `x`, `y` and `sample_weight`, with padding.
        y_pred: the model's outputs for `x`.
        losses: losses that its layers have added.
        training: whether the loss is minimized.

    Returns:
        The loss, with its weight, and what Keras reports of it and the metrics. All is zero for a
        batch that is nothing but padding.

    Raises:
        ValueError: If an output of the model does not have the rows as its first dimension, or a
            loss cannot be weighted.
    """
    _check_outputs(y_pred, sizes)

    def of_real_rows(size: int) -> Any:
        real = without_padding((batch, y_pred), sizes[0], size)
        (x, y, sample_weight), outputs = real
        with model_state.layer_losses(model, losses):
            loss = model.compute_loss(x, y, outputs, sample_weight)
        if training:
            model._validate_target_and_loss(y, loss)
        logs = model.compute_metrics(x, y, outputs, sample_weight)
        # Differentiating a loss of several values is differentiating their sum.
        return tf.reduce_sum(loss), logs

    loss, logs = branches(marks[0], sizes, of_real_rows, training)
    for weight in marks[1:]:
        _check_reductions(model)
        loss *= tf.cast(weight, loss.dtype)
    return loss, logs


def _check_outputs(y_pred: Any, sizes: Sequence[int]) -> None:
    for output in tf.nest.flatten(y_pred):
        if not output.shape.rank or output.shape[0] != sizes[0]:
            raise ValueError(
                f"The data have a partial batch of {sizes[1]} instead of {sizes[0]} rows, and an "
                f"output of the model has the shape {output.shape}, so that what belongs to the "
                "padding of that batch cannot be left out of losses and metrics. Return outputs "
                "whose first dimension is that of the rows, or use data whose number is a multiple "
                "of the batch size."
            )


def _check_reductions(model: IPUModel) -> None:
    """Raises if a loss is not a mean over the batch."""
    for loss in tf.nest.flatten(model.compiled_loss._losses):
        if loss is not None and loss.reduction not in _PER_BATCH:
            raise ValueError(
                "fit() pads partial batches so that all rows of an update count the same. Where an "
                "update is made of several batches, that takes losses that are means over a batch. "
                f"Received: the loss {loss.name} with reduction={loss.reduction!r}. Use the "
                "default reduction, or data whose number is a multiple of the batch size."
            )


def adding_layers(model: IPUModel) -> list[str]:
    """Returns the names of layers that added losses or metrics of a batch when they were called.

    Args:
        model: a model that has just been called.
    """
    return [
        layer.name for layer in model._flatten_layers() if layer._eager_losses or layer._metrics
    ]


def warn_of_whole_batches(model: IPUModel, added: Iterable[str]) -> None:
    """Warns once of layers in which padding is not without effect, if there are any.

    Args:
        model: the model that is trained.
        added: the names of layers that add losses or metrics of a batch.
    """
    normalizing = [layer.name for layer in model._flatten_layers() if _uses_statistics(layer)]
    found = list(dict.fromkeys([*normalizing, *added]))
    known = model_state.of(model)
    if found and not known.told_of_padding:
        known.told_of_padding = True
        logging.warning(
            "fit() pads partial batches with copies of their rows, and %s of the model %s "
            "computes something of all rows of a batch: a normalization, or a loss or metric that "
            "it adds. There the copies count too, so results differ from those of stock Keras.",
            ", ".join(found),
            model.name,
        )


def _uses_statistics(layer: Any) -> bool:
    return isinstance(layer, batch_normalization.BatchNormalizationBase) and layer.trainable
