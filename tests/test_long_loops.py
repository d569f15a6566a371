"""Tests that long loops with feeds keep order and do not grow."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu import (
    config,
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    scopes,
)

tf1 = tf.compat.v1
ITERATIONS = 1_000_000
# What an allocator may keep for itself; a leak of one element an iteration would be ten times this.
TOLERATED_GROWTH = 10e6  # bytes


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as status:
        pages = int(status.read().split()[1])
    return pages * 4096


def test_a_million_elements_arrive_in_order_in_flat_memory():
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    with tf.Graph().as_default():
        numbers = tf.data.Dataset.range(2 * ITERATIONS, output_type=tf.int32)
        infeed = ipu_infeed_queue.IPUInfeedQueue(numbers)
        mode = ipu_outfeed_queue.IPUOutfeedMode.LAST
        outfeed = ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode=mode)

        def body(expected, wrong, element):
            differs = tf.cast(tf.not_equal(element, expected), tf.int32)
            return expected + 1, wrong + differs, outfeed.enqueue(element)

        def program(first, n):
            return loops.repeat(n, body, [first, tf.constant(0)], infeed)

        first, n = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.int32, [])
        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(program, [first, n])
        last = outfeed.dequeue()
        with tf1.Session() as session:
            session.run(infeed.initializer)
            session.run(run, {first: 0, n: 1000})
            before = _resident_bytes()
            end, wrong = session.run(run, {first: 1000, n: ITERATIONS})
            grown = _resident_bytes() - before
            assert (end, wrong) == (ITERATIONS + 1000, 0)
            assert session.run(last) == ITERATIONS + 999
            assert grown < TOLERATED_GROWTH
