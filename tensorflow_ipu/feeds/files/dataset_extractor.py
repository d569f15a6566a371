"""Ops that write datasets to files: the public module `ipu.dataset_extractor`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.util import structure
from tensorflow.python.framework import ops
from tensorflow.python.ops import script_ops

from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.files import tensor_file
from tensorflow_ipu.feeds.files.tensor_file import TensorKind
from tensorflow_ipu.feeds.files.variables import export_variables, import_variables
from tensorflow_ipu.runtime import interpreter, native

__all__ = ["dataset_extractor", "dataset_to_files", "export_variables", "import_variables"]

_DEFAULT_FEED_NAME = "infeed"


def dataset_extractor(
    dataset: dataset_ops.DatasetV2,
    num_elements: int,
    filename: str | os.PathLike[str],
    feed_name: str = "",
    print_stats: bool = True,
    apply_options: bool = True,
) -> ops.Operation | None:
    """Writes the first elements of a dataset to one file.

    Each tensor of an element gives one stream, `<feed_name>.<i>` in the order of flattening, that
    holds its values stacked to `[num_elements] + S`.

    Args:
        dataset: the dataset; the shapes of its elements must be fully defined.
        num_elements: number of elements to write.
        filename: the target file.
        feed_name: first part of the names of the streams; "infeed" when empty.
        print_stats: whether to print a summary.
        apply_options: whether to apply the options of tf.data that are for debugging.

    Returns:
        In graph mode an op that writes the file; in eager mode the file is written now. Too few
        elements are a `tf.errors.OutOfRangeError`.

    Raises:
        TypeError: If `dataset` is no dataset.
        ValueError: If `num_elements` is below 1, or a shape is not fully defined.
    """
    names = _stream_names(dataset, feed_name)
    return _write_streams(dataset, num_elements, [(filename, names)], print_stats, apply_options)


def dataset_to_files(
    dataset: dataset_ops.DatasetV2,
    num_elements: int,
    filename: str | os.PathLike[str],
    feed_name: str = "",
    apply_options: bool = True,
) -> ops.Operation | None:
    """Writes the first elements of a dataset, each tensor of an element to a file of its own.

    With several tensors, `<i>` goes into each filename before its extension: `data.0.bin`.

    Args:
        dataset: as for `dataset_extractor`.
        num_elements: as for `dataset_extractor`.
        filename: the filename without `<i>`; used as it is for elements of one tensor.
        feed_name: as for `dataset_extractor`.
        apply_options: as for `dataset_extractor`.

    Returns:
        As for `dataset_extractor`.

    Raises:
        TypeError: If `dataset` is no dataset.
        ValueError: If `num_elements` is below 1, or a shape is not fully defined.
    """
    names = _stream_names(dataset, feed_name)
    files: list[tuple[str | os.PathLike[str], list[str]]] = [(filename, names)]
    if len(names) > 1:
        stem, extension = os.path.splitext(os.fspath(filename))
        files = [(f"{stem}.{i}{extension}", [name]) for i, name in enumerate(names)]
    return _write_streams(dataset, num_elements, files, False, apply_options)


def _stream_names(dataset: dataset_ops.DatasetV2, feed_name: str) -> list[str]:
    """Returns the name of the stream for each tensor of an element."""
    if not isinstance(dataset, dataset_ops.DatasetV2):
        raise TypeError(f"Expected a tf.data.Dataset. Received: dataset={dataset!r}")
    count = len(structure.get_flat_tensor_types(dataset.element_spec))
    return [f"{feed_name or _DEFAULT_FEED_NAME}.{i}" for i in range(count)]


def _write_streams(
    dataset: dataset_ops.DatasetV2,
    num_elements: int,
    files: Sequence[tuple[str | os.PathLike[str], Sequence[str]]],
    print_stats: bool,
    apply_options: bool,
) -> ops.Operation | None:
    """Writes the tensors of a dataset's elements to files, given the names for each file."""
    num_elements = COUNT.whole("num_elements", num_elements)
    shapes = structure.get_flat_tensor_shapes(dataset.element_spec)
    for shape in shapes:
        if not shape.is_fully_defined():
            raise ValueError(
                f"The shape {shape} in {dataset.element_spec} is not fully defined. Use "
                "dataset.batch(..., drop_remainder=True), or tf.ensure_shape in a map."
            )
    if apply_options:
        dataset = dataset._apply_debug_options()

    def save(*values: npt.NDArray[Any]) -> None:
        remaining = iter(values)
        for filename, names in files:
            streams = [(name, TensorKind.INFEED, next(remaining)) for name in names]
            tensor_file.write_and_report(filename, streams, print_stats)

    with common.on_host():
        values = interpreter.call(
            native.ops().ipu_dataset_extract,
            dataset._variant_tensor,
            num_elements=num_elements,
            output_types=structure.get_flat_tensor_types(dataset.element_spec),
            output_shapes=shapes,
        )
        return script_ops.numpy_function(save, values, [])
