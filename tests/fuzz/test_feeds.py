"""Random elements come out of an outfeed as they went into an infeed, in order, on each replica."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from tests.fuzz import support
from tests.support.programs import replicas as replica_helpers

_DTYPES = (np.float32, np.float16, np.int32, np.uint8, np.int8, np.bool_)
_tensors = strategies.tuples(
    strategies.sampled_from(_DTYPES),
    strategies.lists(strategies.integers(1, 3), max_size=3).map(tuple),
)
# Structures of (dtype, shape): a dict, a tuple, and both in each other. Never a tensor alone, as a
# dataset takes the elements of a tuple apart.
_structures = strategies.recursive(
    _tensors.map(lambda tensor: {"only": tensor}),
    lambda inner: strategies.dictionaries(
        strategies.sampled_from(["a", "b", "c"]), inner, min_size=1, max_size=3
    ),
    max_leaves=4,
)


class Case(NamedTuple):
    """A structure of fed values, and the settings of its feed."""

    structure: Any
    replicas: int
    steps: int
    launches: int
    last: bool


CASES = strategies.builds(
    Case,
    _structures,
    strategies.sampled_from([1, 2, 4]),
    strategies.integers(1, 6),
    strategies.integers(1, 2),
    strategies.booleans(),
)


def _arrays(structure: Any, elements: int) -> Any:
    """Returns random values of a structure, with a first dimension of N elements."""
    if isinstance(structure, dict):
        return {key: _arrays(inner, elements) for key, inner in structure.items()}
    dtype, shape = structure
    values = np.random.default_rng(len(shape)).integers(0, 100, (elements, *shape))
    return (values % 2 == 0) if dtype is np.bool_ else values.astype(dtype)


def _check(case: Case) -> None:
    replica_helpers.configure(case.replicas)
    arrays = _arrays(case.structure, case.steps * case.launches * case.replicas)
    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    strategy = ipu_strategy.IPUStrategy()
    mode = IPUOutfeedMode.LAST if case.last else IPUOutfeedMode.ALL
    queue = IPUOutfeedQueue(outfeed_mode=mode)
    with strategy.scope():
        iterator = iter(dataset)

        @tf.function(jit_compile=True)
        def program(iterator: Any) -> None:
            for _ in tf.range(case.steps):
                queue.enqueue(next(iterator))

        for launch in range(case.launches):
            strategy.run(program, (iterator,))
            _compare(case, launch, arrays, queue.dequeue())


def _compare(case: Case, launch: int, arrays: Any, dequeued: Any) -> None:
    for sent, received in zip(tf.nest.flatten(arrays), tf.nest.flatten(dequeued)):
        rows = sent.reshape(case.launches, case.steps, case.replicas, *sent.shape[1:])[launch]
        expected = rows[-1] if case.last else rows
        assert received.dtype.as_numpy_dtype == sent.dtype
        axis = 0 if case.last else 1
        shape = expected.shape
        if case.replicas == 1:
            shape = shape[:axis] + shape[axis + 1 :]
        np.testing.assert_array_equal(received.numpy(), expected.reshape(shape))


def test_what_is_fed_comes_out(request: pytest.FixtureRequest) -> None:
    support.run(request, "feeds", CASES, _check)
