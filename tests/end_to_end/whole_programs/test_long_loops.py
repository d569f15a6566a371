"""Tests that long loops with feeds keep order and do not grow."""

from __future__ import annotations

# What an allocator may keep for itself; a leak of one element an iteration would be ten times this.
TOLERATED_GROWTH = 10e6  # bytes

# In a process of its own: threads that earlier tests left behind allocate memory, too.
PROGRAM = """
import tensorflow as tf
from tensorflow.python import ipu

tf1 = tf.compat.v1
ITERATIONS = 1_000_000


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as status:
        return int(status.read().split()[1]) * 4096


cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()
with tf.Graph().as_default():
    numbers = tf.data.Dataset.range(2 * ITERATIONS, output_type=tf.int32)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(numbers)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(
        outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST
    )

    def body(expected, wrong, element):
        differs = tf.cast(tf.not_equal(element, expected), tf.int32)
        return expected + 1, wrong + differs, outfeed.enqueue(element)

    def program(first, n):
        return ipu.loops.repeat(n, body, [first, tf.constant(0)], infeed)

    first, n = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.int32, [])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(program, [first, n])
    last = outfeed.dequeue()
    with tf1.Session() as session:
        session.run(infeed.initializer)
        session.run(run, {first: 0, n: 1000})
        before = resident_bytes()
        end, wrong = session.run(run, {first: 1000, n: ITERATIONS})
        print(resident_bytes() - before)
        assert (end, wrong) == (ITERATIONS + 1000, 0)
        assert session.run(last) == ITERATIONS + 999
"""


def test_million_elements_arrive_in_order_in_flat_memory(run_python):
    grown = int(run_python(PROGRAM).stdout)
    assert grown < TOLERATED_GROWTH
