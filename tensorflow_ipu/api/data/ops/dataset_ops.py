"""`BufferDataset`, which produces the elements of another dataset in groups."""

from __future__ import annotations

from typing import Any

from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.framework import errors, tensor_util


class BufferDataset(dataset_ops.UnaryUnchangedStructureDataset):
    """Dataset of another dataset's elements, produced in groups.

    Elements, order and structure are the input's, but each group of `buffer_size` consecutive
    elements is produced together. Only complete groups come through: of `n` elements the last `n %
    buffer_size` are dropped. All elements of a group need the same shape. Iterators can be
    checkpointed.
    """

    def __init__(self, input_dataset: dataset_ops.DatasetV2, buffer_size: Any) -> None:
        """Creates the dataset.

        Args:
            input_dataset: the dataset to read.
            buffer_size: elements in a group: an int, or a scalar int64 tensor.

        Raises:
            tf.errors.InvalidArgumentError: If the buffer size is below 1.
        """
        size = buffer_size
        if tensor_util.is_tf_type(buffer_size):
            size = tensor_util.constant_value(buffer_size)
        if size is not None and size <= 0:
            raise errors.InvalidArgumentError(
                None, None, f"Buffer size must be greater than zero. Received: {size}"
            )
        self._input_dataset = input_dataset
        # Kept: it owns the functions that its variant refers to.
        self._grouped = input_dataset.batch(buffer_size, drop_remainder=True).unbatch()
        super().__init__(input_dataset, self._grouped._variant_tensor)
