"""Times a small loop with an infeed and an outfeed, and watches order and memory.

The loop reads consecutive integers, counts those that are not what it expects, and sends each to an
outfeed in mode LAST. The same loop in plain TensorFlow, which has an iterator but no outfeed, gives
the ratio.
"""

from __future__ import annotations

import argparse
import time

import tensorflow as tf
from tensorflow.python import ipu


def resident_megabytes() -> float:
    """Returns how much memory the process has, in MB."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1e3


def main() -> None:
    """Runs both loops and prints their times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=1_000_000)
    n = parser.parse_args().iterations
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    mode = ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode=mode)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        iterator = iter(tf.data.Dataset.range(2 * n))

        @tf.function(jit_compile=True)
        def on_ipu(first: tf.Tensor) -> tf.Tensor:
            wrong = tf.constant(0)
            for i in tf.range(n):
                x = tf.cast(next(iterator), tf.int32)
                wrong += tf.cast(x != first + i, tf.int32)
                outfeed.enqueue(x)
            return wrong

    plain_iterator = iter(tf.data.Dataset.range(n))

    @tf.function
    def plain() -> tf.Tensor:
        wrong = tf.constant(0)
        for i in tf.range(n):
            wrong += tf.cast(tf.cast(next(plain_iterator), tf.int32) != i, tf.int32)
        return wrong

    start = time.perf_counter()
    plain()
    plain_time = (time.perf_counter() - start) / n * 1e6
    print(f"plain loop: {plain_time:.2f} us an iteration")
    for launch in range(2):
        before, start = resident_megabytes(), time.perf_counter()
        wrong = int(strategy.run(on_ipu, [tf.constant(launch * n)]))
        taken = (time.perf_counter() - start) / n * 1e6
        last = int(outfeed.dequeue())
        print(
            f"ipu loop, launch {launch}: {taken:.2f} us an iteration, "
            f"ratio {taken / plain_time:.2f}; "
            f"{n} elements, {wrong} out of order, last {last}; resident memory {before:.0f} -> "
            f"{resident_megabytes():.0f} MB"
        )


if __name__ == "__main__":
    main()
