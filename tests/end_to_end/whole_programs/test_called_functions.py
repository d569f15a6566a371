"""Functions that are called run as a whole, in one order and alike on all replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tensorflow_ipu.api.loops import repeat
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops, functional_ops
from tests.support.programs import replicas as replica_helpers

REPLICAS = 2
CALLS: dict[str, Callable[[Any], Any]] = {
    "tf.function": tf.function,
    "outlined function": functional_ops.outlined_function,
    "conditional": lambda f: lambda x: tf.cond(x < 10, lambda: f(x), lambda: x),
    "loop": lambda f: lambda x: repeat(1, lambda x: (f(x), x)[1], [x]),
}


def _reduced(x: Any, op: str = "add") -> Any:
    return ops.collectives.replicated_all_reduce(x, op)


def _of_own(ir: popxl.Ir, values: np.ndarray) -> popxl.Variable:
    """Returns a variable of which each replica has its own value."""
    return popxl.variable(values, replica_grouping=ir.replica_grouping(group_size=1))


def _run(ir: popxl.Ir, stream: popxl.DeviceToHostStream, runs: int = 1) -> list[np.ndarray]:
    with popxl.Session(ir, "ipu_hw") as session:
        return [session.run()[stream] for _ in range(runs)]


def test_called_graph_with_unused_result_stores_to_host():
    ir = popxl.Ir(replication=REPLICAS)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.full((8,), 2, np.float32))
        stream = popxl.d2h_stream((), popxl.float32)

        def final(x: Any) -> Any:
            mean = ops.sum(_reduced(x, "mean"))
            ops.host_store(stream, mean)
            return mean

        ops.call(ir.create_graph(final, x), x)
    np.testing.assert_array_equal(_run(ir, stream)[0], [16] * REPLICAS)


@pytest.mark.parametrize("call", CALLS)
def test_effects_of_functions_with_unused_results(call):
    replica_helpers.configure(REPLICAS)
    strategy = ipu_strategy.IPUStrategy()
    queue = IPUOutfeedQueue()
    with strategy.scope():
        variable = tf.Variable(1.0)

        def effects(x: Any) -> Any:
            total = cross_replica_ops.cross_replica_sum(x)
            queue.enqueue(total)
            variable.assign_add(total)
            return total

        @tf.function(jit_compile=True)
        def program() -> None:
            CALLS[call](effects)(tf.constant(3.0))

        strategy.run(program)
    np.testing.assert_array_equal(queue.dequeue(), [[6.0, 6.0]])
    assert variable.numpy() == 7


def test_sums_of_equal_values_have_equal_bits():
    """Each replica could begin with another of the terms: with one whose memory is free."""
    random = np.random.default_rng(0)
    ir = popxl.Ir(replication=REPLICAS)
    with ir.main_graph, popxl.in_sequence():
        x = ops.exp(popxl.variable(random.standard_normal((8, 16)).astype(np.float32)))
        a, b = (
            _of_own(ir, random.standard_normal((REPLICAS, 16, 16)).astype(np.float32))
            for _ in range(2)
        )
        graph = ir.create_graph(lambda x, a, b: _reduced(x @ a) + _reduced(x @ b) + x, x, a, b)
        (y,) = ops.call(graph, x, a, b)
        stream = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(stream, y)
    for result in _run(ir, stream, 20):
        np.testing.assert_array_equal(result[0], result[1])


def test_collectives_after_a_call_follow_those_in_it():
    """Nothing but the first result of the call leads to the last collective, and that is early."""
    ir = popxl.Ir(replication=REPLICAS)
    with ir.main_graph, popxl.in_sequence():
        x = _of_own(ir, np.arange(1, REPLICAS + 1, dtype=np.float32))
        is_late = _of_own(ir, np.arange(REPLICAS) > 0)
        stored = popxl.d2h_stream((), popxl.float32)

        def slow(x: Any) -> Any:
            return ops.repeat(ir.create_graph(lambda t: ops.abs(t), x), 2000, x)[0]

        def called(x: Any, is_late: Any) -> Any:
            first = _reduced(x)
            ops.host_store(stored, first)
            graphs = ir.create_graph(slow, x), ir.create_graph(lambda x: x + 0, x)
            (y,) = ops.conditional(is_late, *graphs, then_inputs=[x], else_inputs=[x])
            second = _reduced(y)
            for _ in range(20):
                first = first + 1
            return first, second

        first, second = ops.call(ir.create_graph(called, x, is_late), x, is_late)
        (third,) = ops.call(ir.create_graph(_reduced, first), first)
        stream = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(stream, ops.concat([second.reshape((1,)), third.reshape((1,))], 0))
    np.testing.assert_array_equal(_run(ir, stream)[0], [[3, 46], [3, 46]])
