"""Branches of a program for batches with fewer rows than the others.

The shapes of a program are fixed. The host pads such batches to the size of the largest, and sends
with each batch a mark that says how many of its rows are real. What must not see the padding is in
the program once for each number of rows: a branch that first cuts the padding off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import cond_v2

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
