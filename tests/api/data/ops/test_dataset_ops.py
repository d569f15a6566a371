"""Tests of the datasets for IPU programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.data.ops.dataset_ops import BufferDataset


@pytest.mark.parametrize("count", [0, 2, 3, 7, 9])
@pytest.mark.parametrize("buffer_size", [1, 3])
def test_only_complete_groups_come_through(count: int, buffer_size: int) -> None:
    dataset = BufferDataset(tf.data.Dataset.range(count), buffer_size)
    expected = count - count % buffer_size
    assert [int(x) for x in dataset] == list(range(expected))
    assert dataset.cardinality() == expected


def test_the_structure_is_kept() -> None:
    source = tf.data.Dataset.range(5).map(lambda x: {"a": (tf.fill([2, 3], x), str(1)), "b": -x})
    dataset = BufferDataset(source, 2)
    assert dataset.element_spec == source.element_spec
    elements = list(dataset)
    assert len(elements) == 4
    np.testing.assert_array_equal(elements[3]["a"][0], np.full([2, 3], 3))
    assert elements[3]["a"][1] == b"1" and elements[3]["b"] == -3


def test_elements_are_produced_in_groups() -> None:
    produced: list[int] = []

    def produce() -> Iterator[int]:
        for number in range(9):
            produced.append(number)
            yield number

    source = tf.data.Dataset.from_generator(produce, output_signature=tf.TensorSpec([], tf.int64))
    options = tf.data.Options()
    # tf.data may add a thread that reads ahead at the end of a dataset.
    options.experimental_optimization.inject_prefetch = False
    iterator = iter(BufferDataset(source, 3).with_options(options))
    next(iterator)
    assert produced == [0, 1, 2]
    next(iterator), next(iterator), next(iterator)
    assert produced == [0, 1, 2, 3, 4, 5]


def test_infinite_datasets_stay_infinite() -> None:
    dataset = BufferDataset(tf.data.Dataset.range(2).repeat(), 3)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert [int(x) for x in dataset.take(5)] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("size", [0, -1, np.int64(0)])
def test_the_size_is_checked(size: int) -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Buffer size must be greater than zero."
    ):
        BufferDataset(tf.data.Dataset.range(4), size)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Buffer size must be greater than zero."
    ):
        BufferDataset(tf.data.Dataset.range(4), tf.constant(size, tf.int64))


@pytest.mark.parametrize("position", [1, 3, 4])
def test_an_iterator_is_restored_where_it_was(tmp_path: Path, position: int) -> None:
    def make() -> tf.data.Iterator:
        return iter(BufferDataset(tf.data.Dataset.range(8), 3))

    iterator = make()
    for _ in range(position):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    restored = make()
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()
    assert [int(x) for x in restored] == list(range(position, 6))


def test_elements_come_through_in_graph_mode() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = BufferDataset(tf.data.Dataset.range(5), 2)
        element = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        assert [session.run(element) for _ in range(4)] == [0, 1, 2, 3]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)
