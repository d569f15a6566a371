"""Benchmark of a dataset's or infeed queue's rate, without a device."""

from __future__ import annotations

from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.ipu_infeed_queue import IPUInfeedQueue, feed_of
from tensorflow_ipu.runtime import interpreter, native


def dataset_benchmark(
    dataset: dataset_ops.DatasetV2,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_options: bool = True,
    do_memcpy: bool = True,
) -> tensor_lib.Tensor:
    """Measures a dataset.

    Args:
        dataset: the dataset. Repeat it if it has fewer elements than are read.
        number_of_epochs: epochs to measure, one after the other.
        elements_per_epochs: elements in an epoch.
        print_stats: whether to print each epoch.
        apply_options: whether to apply the options of tf.data that are for debugging. Options for
            speed always are.
        do_memcpy: whether to copy each element, as sending it to a device would.

    Returns:
        A string tensor of shape [1] that holds JSON: `{"epochs": [...]}`, and for each epoch
        `elements_processed`, `total_bytes_processed`, `time_elapsed` (s), `elements_per_second` and
        `bandwidth` (GB/s: 10^9 bytes). In graph mode the op measures each time it runs. It gives
        `tf.errors.OutOfRangeError` when the dataset is too short.

    Raises:
        TypeError: If `dataset` is no dataset.
        ValueError: If a count is below 1.
    """
    if not isinstance(dataset, dataset_ops.DatasetV2):
        raise TypeError(f"Expected a tf.data.Dataset. Received: dataset={dataset!r}")
    number_of_epochs = COUNT.whole("number_of_epochs", number_of_epochs)
    elements_per_epochs = COUNT.whole("elements_per_epochs", elements_per_epochs)
    if apply_options:
        dataset = dataset._apply_debug_options()
    with common.on_host():
        return interpreter.call(
            native.ops().ipu_dataset_benchmark,
            dataset._variant_tensor,
            number_of_epochs=number_of_epochs,
            elements_per_epochs=elements_per_epochs,
            print_stats=print_stats,
            do_memcpy=do_memcpy,
        )


def infeed_benchmark(
    infeed_queue: IPUInfeedQueue,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> tensor_lib.Tensor:
    """Measures the dataset of an infeed queue. The queue need not be initialized.

    Args:
        infeed_queue: the queue.
        number_of_epochs: as for `dataset_benchmark`.
        elements_per_epochs: as for `dataset_benchmark`.
        print_stats: as for `dataset_benchmark`.
        do_memcpy: as for `dataset_benchmark`.

    Returns:
        As for `dataset_benchmark`.

    Raises:
        TypeError: If `infeed_queue` is no `IPUInfeedQueue`.
        ValueError: If a count is below 1.
    """
    if not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(f"Expected an IPUInfeedQueue. Received: infeed_queue={infeed_queue!r}")
    return dataset_benchmark(
        feed_of(infeed_queue).dataset,
        number_of_epochs,
        elements_per_epochs,
        print_stats,
        apply_options=False,  # the queue has applied them
        do_memcpy=do_memcpy,
    )
