"""A program's data in files: `ipu.utils.export_*` and `ipu.utils.import_*`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorflow.python.client import session as session_lib
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import context
from tensorflow.python.framework import ops
from tensorflow.python.ops import variables

from tensorflow_ipu.feeds import dataset_extractor
from tensorflow_ipu.feeds.dataset_extractor import TensorKind
from tensorflow_ipu.feeds.ipu_infeed_queue import IPUInfeedQueue, feed_of


def export_dataset_to_file(
    dataset_or_infeed: dataset_ops.DatasetV2 | IPUInfeedQueue,
    output_filename: str | os.PathLike[str],
    num_elements: int,
    feed_name: str = "",
    apply_options: bool = True,
) -> ops.Operation | None:
    """Writes the first elements of a dataset or an infeed queue to files.

    When elements have several tensors, tensor `i` of all elements goes to a file of its own:
    `export_dataset_to_file(dataset, "my.bin", 100)` writes `my.0.bin`, `my.1.bin`, ...
    `tensor_file` defines the format.

    Args:
        dataset_or_infeed: the dataset or queue to read. A queue need not be initialized, and keeps
            its elements.
        output_filename: the target file.
        num_elements: number of elements to write.
        feed_name: name for the streams; when empty, the queue's, or "infeed".
        apply_options: whether to apply the options of tf.data that are for debugging.

    Returns:
        In graph mode an op that writes; in eager mode the files are written now. Too few elements
        are a `tf.errors.OutOfRangeError`.

    Raises:
        TypeError: If it is neither a dataset nor a queue.
        ValueError: If `num_elements` is below 1, or a shape is not fully defined.
    """
    dataset = dataset_or_infeed
    if isinstance(dataset_or_infeed, IPUInfeedQueue):
        feed = feed_of(dataset_or_infeed)
        dataset = feed.dataset
        feed_name = feed_name or feed.id
        apply_options = False  # the queue has applied them
    return dataset_extractor.dataset_to_files(
        dataset, num_elements, output_filename, feed_name, apply_options
    )


def export_inputs_to_file(
    inputs: Sequence[Any],
    output_filename: str | os.PathLike[str],
    feed_dict: Mapping[Any, Any],
) -> None:
    """Writes the values of a program's inputs to a file, under their names without ":0".

    Args:
        inputs: placeholders, and variables. In graph mode variables need a default session.
        output_filename: where to.
        feed_dict: values of the placeholders, as for `Session.run`.

    Raises:
        ValueError: If a placeholder has no value, or there is no session to read a variable.
    """
    dataset_extractor.write(
        output_filename,
        [
            (tensor.name.split(":")[0], TensorKind.INPUT, _value(tensor, feed_dict))
            for tensor in inputs
        ],
    )


def _value(tensor: Any, feed_dict: Mapping[Any, Any]) -> npt.NDArray[Any]:
    """Returns the value of an input."""
    if isinstance(tensor, variables.Variable):
        if context.executing_eagerly():
            return np.asarray(tensor.numpy())
        session = ops.get_default_session()
        if session is None:
            raise ValueError(
                f"The variable {tensor.name} has a value only in a session. Call this function in "
                "`with session.as_default()`."
            )
        return np.asarray(session.run(tensor))
    fed = {key if isinstance(key, str) else key.name: value for key, value in feed_dict.items()}
    if tensor.name not in fed:
        raise ValueError(
            f"There is no value for {tensor.name} in feed_dict, which has {sorted(fed)}."
        )
    return np.asarray(fed[tensor.name], tensor.dtype.as_numpy_dtype)


def export_variables_from_live_session(
    session: session_lib.Session,
    output_file: str | os.PathLike[str],
    is_input: bool = False,
    metadata: str | os.PathLike[str] | None = None,
    print_stats: bool = True,
) -> None:
    """Writes all global variables of a session's graph to a file.

    Args:
        session: the session that has their values.
        output_file: the target file.
        is_input: whether they are marked as inputs of a program, or as its parameters.
        metadata: as for `dataset_extractor.export_variables`.
        print_stats: whether to print a summary.

    Raises:
        ValueError: As for `dataset_extractor.export_variables`.
    """
    with session.graph.as_default():
        session.run(
            dataset_extractor.export_variables(
                variables.global_variables(), output_file, is_input, metadata, print_stats
            )
        )


def import_data_in_live_session(
    session: session_lib.Session,
    data_files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    is_input: bool = False,
    strict: bool = True,
    print_stats: bool = True,
) -> None:
    """Assigns values from files to the global variables of a session's graph.

    Args:
        session: the session whose values change.
        data_files: one file or several.
        is_input: as for `dataset_extractor.import_variables`.
        strict: as for `dataset_extractor.import_variables`.
        print_stats: whether to print a summary.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: As for `dataset_extractor.import_variables`.
    """
    with session.graph.as_default():
        session.run(
            dataset_extractor.import_variables(
                variables.global_variables(), data_files, is_input, strict, print_stats
            )
        )


def export_variables_from_live_model(
    model: Any,
    output_file: str | os.PathLike[str],
    is_input: bool = False,
    metadata: str | os.PathLike[str] | None = None,
    print_stats: bool = True,
) -> None:
    """Writes the variables of a Keras model to a file, in eager mode.

    Args:
        model: the model.
        output_file: where to.
        is_input: as for `export_variables_from_live_session`.
        metadata: as for `dataset_extractor.export_variables`.
        print_stats: whether to print a summary.

    Raises:
        ValueError: As for `dataset_extractor.export_variables`.
    """
    dataset_extractor.export_variables(
        model.variables, output_file, is_input, metadata, print_stats
    )


def import_data_in_live_model(
    model: Any,
    data_files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    is_input: bool = False,
    strict: bool = True,
    print_stats: bool = True,
) -> None:
    """Assigns values from files to the variables of a Keras model, in eager mode.

    Args:
        model: the model.
        data_files: one file or several.
        is_input: as for `dataset_extractor.import_variables`.
        strict: as for `dataset_extractor.import_variables`.
        print_stats: whether to print a summary.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: As for `dataset_extractor.import_variables`.
    """
    dataset_extractor.import_variables(model.variables, data_files, is_input, strict, print_stats)
