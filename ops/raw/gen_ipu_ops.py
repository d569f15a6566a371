"""The raw op that reads trace events: the public module `gen_ipu_ops`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tensorflow_ipu.runtime import events


def ipu_event_trace(name: str | None = None) -> tf.Tensor:
    """Returns the trace events since they were last read, and forgets them.

    Events are recorded only when the configuration asks for them.

    Args:
        name: name for the op.

    Returns:
        A string tensor of shape [number of events]: serialised `IpuTraceEvent` messages, oldest
        first. The op runs on the CPU, each time it is evaluated.
    """
    with tf.device("/device:CPU:0"):
        trace = tf.numpy_function(_drain, [], tf.string, name=name or "ipu_event_trace")
    trace.set_shape([None])
    return trace


def _drain() -> np.ndarray:
    """The events as an array; of objects, as NumPy's byte strings lose trailing zeros."""
    drained = events.STORE.drain()
    array = np.empty(len(drained), dtype=object)
    array[:] = drained
    return array
