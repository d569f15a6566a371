"""Tests of the dataset benchmarks."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.dataset_benchmark import dataset_benchmark, infeed_benchmark
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue

KEYS = {
    "elements_processed",
    "total_bytes_processed",
    "time_elapsed",
    "elements_per_second",
    "bandwidth",
}


def images() -> tf.data.Dataset:
    """100 elements of 4 * 6 + 8 bytes."""
    return tf.data.Dataset.range(100).map(lambda x: (tf.zeros([2, 3]), {"label": x}))


def check(statistics: Any, epochs: int, elements: int) -> None:
    """Checks the form of a result, and that its numbers agree with each other."""
    assert statistics.shape == (1,)
    content = json.loads(statistics[0])
    assert list(content) == ["epochs"]
    assert len(content["epochs"]) == epochs
    for epoch in content["epochs"]:
        assert set(epoch) == KEYS
        assert epoch["elements_processed"] == elements
        assert epoch["total_bytes_processed"] == elements * 32
        seconds = epoch["time_elapsed"]
        assert seconds > 0
        assert epoch["elements_per_second"] == pytest.approx(elements / seconds)
        assert epoch["bandwidth"] == pytest.approx(elements * 32 / 1e9 / seconds)


@pytest.mark.parametrize("do_memcpy", [True, False])
def test_a_dataset_is_measured_in_graph_mode(do_memcpy: bool) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        benchmark = dataset_benchmark(images(), 5, 20, print_stats=False, do_memcpy=do_memcpy)
        assert benchmark.shape == [1] and benchmark.dtype == tf.string
        for _ in range(2):
            check(session.run(benchmark), 5, 20)


def test_an_infeed_queue_is_measured_in_eager_mode() -> None:
    queue = IPUInfeedQueue(images())
    check(infeed_benchmark(queue, 2, 50, print_stats=False).numpy(), 2, 50)


def test_each_epoch_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    dataset_benchmark(images(), 3, 10)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Epoch 0", "Epoch 1", "Epoch 2"]
    assert "10 elements, 320 bytes" in lines[0]


def test_a_dataset_that_is_too_short() -> None:
    with pytest.raises(tf.errors.OutOfRangeError, match="reached the end of the dataset"):
        dataset_benchmark(images(), 11, 10, print_stats=False)


def test_an_error_in_the_dataset_is_passed_on() -> None:
    dataset = tf.data.Dataset.range(3).map(lambda x: 6 // (x - 1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="[Dd]ivision by zero"):
        dataset_benchmark(dataset, 1, 2, print_stats=False)


@pytest.mark.parametrize(("epochs", "elements"), [(0, 1), (1, 0), (-1, 1)])
def test_the_counts_are_checked(epochs: int, elements: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        dataset_benchmark(images(), epochs, elements)


def test_the_types_are_checked() -> None:
    with pytest.raises(TypeError, match=r"tf\.data\.Dataset"):
        dataset_benchmark([1, 2], 1, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="IPUInfeedQueue"):
        infeed_benchmark(images(), 1, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("of_queue", [False, True])
def test_an_empty_tensor_is_refused(of_queue: bool) -> None:
    dataset = tf.data.Dataset.from_tensors(tf.zeros([2, 0])).repeat()
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Detected a tensor in the dataset with a dimension of size 0",
    ):
        if of_queue:
            infeed_benchmark(IPUInfeedQueue(dataset), 1, 4)
        else:
            dataset_benchmark(dataset, 1, 4)
