"""Collectives of hosts, called by instances: their results in this one.

Run with `python -m tests.support.processes.collective_calls`, as instances of poprun. Instance i
has values that are i more than those of instance 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import horovod as hvd

from tests.support.processes import instances

tf1 = tf.compat.v1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
TYPES = ("float16", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint64")
BASE = np.array([[1, 2, 3], [4, 5, 7]])

Tensors = dict[str, Any]


def every_type(rank: int) -> Tensors:
    """Returns the results of the functions of `ipu.distributed` for each type."""
    found = {}
    for dtype in TYPES:
        value = tf.constant(BASE + rank, dtype)
        found[f"gathered {dtype}"] = ipu.distributed.allgather(value)
        found[f"sum {dtype}"] = ipu.distributed.allreduce(value, SUM)
        found[f"mean {dtype}"] = ipu.distributed.allreduce(value, MEAN, tensor_name="mean")
        found[f"first {dtype}"] = ipu.distributed.broadcast(value)
    found["first bool"] = ipu.distributed.broadcast(tf.constant([rank == 0, True]))
    return found


def horovod(rank: int) -> Tensors:
    """Returns the results of Horovod's functions on tensors, some of different lengths."""
    value = tf.constant(BASE + rank, tf.float32)
    rows = tf.fill([rank, 2], float(rank))
    slices = tf.IndexedSlices(value, tf.constant([rank, 5]), tf.constant([9, 3]))
    summed, averaged = (hvd.allreduce(slices, op) for op in (hvd.Sum, hvd.Average))
    return {
        "average": hvd.allreduce(value),
        "sum": hvd.allreduce(value, hvd.Sum),
        "integers": hvd.allreduce(tf.constant(BASE + rank)),
        "rows": hvd.allgather(rows, name="rows"),
        "none": hvd.allgather(tf.zeros([0, 2])),
        "of the last": hvd.broadcast(value, hvd.size() - 1, name="last"),
        "values": averaged.values,
        "indices": averaged.indices,
        "slices": tf.convert_to_tensor(summed),
    }


def in_session(function: Callable[[int], Tensors], rank: int) -> Tensors:
    """Returns a function's results in a session, where operations run in no order."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetched: Tensors = session.run(function(rank))
        return fetched


def other_order(rank: int) -> Tensors:
    """Returns collectives of named tensors, which instances call in orders of their own."""
    calls = {
        "sum": lambda x: ipu.distributed.allreduce(x, SUM),
        "gathered": ipu.distributed.allgather,
        "first": ipu.distributed.broadcast,
    }
    order = list(calls)[rank % 3 :] + list(calls)[: rank % 3]

    @tf.function
    def each(**tensors: tf.Tensor) -> Tensors:
        found = {name: calls[name](tensors[name]) for name in order}
        # A collective that depends on others, and one with a name of its own.
        after = ipu.distributed.allreduce(found["first"] + found["sum"], SUM, tensor_name="after")
        return {**found, "after": after}

    return each(**{name: tf.constant(BASE + rank + 10 * i) for i, name in enumerate(calls)})


def errors(rank: int) -> dict[str, Any]:
    """Returns the errors of calls that do not fit together, and the value of a call after each."""

    @tf.function
    def some_fit(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        return [ipu.distributed.allreduce(y, SUM), ipu.distributed.allreduce(x, SUM)]

    def of_types(*types: tf.DType) -> tf.Tensor:
        return tf.zeros([2], types[rank % 2])

    calls = {
        "shapes": lambda: ipu.distributed.allreduce(tf.zeros([2 + rank]), SUM),
        "ranks": lambda: ipu.distributed.allgather(tf.zeros([2] * (1 + rank))),
        "sizes": lambda: hvd.allreduce(tf.zeros([2**18 + rank])),
        "types": lambda: hvd.broadcast(of_types(tf.float32, tf.int32), 0),
        "widths": lambda: ipu.distributed.allreduce(of_types(tf.int16, tf.int32), SUM),
        "rows": lambda: hvd.allgather(tf.zeros([2, 1 + rank])),
        "function": lambda: some_fit(tf.zeros([2 + rank]), tf.zeros([1])),
        "functions": lambda: hvd.allreduce(1.0) if rank else hvd.broadcast(1.0, 0),
    }
    found: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            call()
            found[name] = "none"
        except tf.errors.OpError as error:
            found[name] = [type(error).__name__, error.message]
        fits = [tf.constant(rank), tf.constant([rank])]
        found[f"after {name}"] = [int(total) for total in some_fit(*fits)]
    return found


def main() -> None:
    """Calls everything in eager mode, in functions and in sessions."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    modes = {
        "eager": lambda function: function(rank),
        "function": lambda function: tf.function(lambda: function(rank))(),
        "session": lambda function: in_session(function, rank),
    }
    for mode, call in modes.items():
        for function in (every_type, horovod):
            found = {name: np.asarray(value) for name, value in call(function).items()}
            instances.report(mode=mode, function=function.__name__, **found)
    instances.report(**{name: np.asarray(value) for name, value in other_order(rank).items()})
    instances.report(place=[size, rank, hvd.local_size(), hvd.local_rank()])
    instances.report(**errors(rank))


if __name__ == "__main__":
    main()
