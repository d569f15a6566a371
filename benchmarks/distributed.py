"""Times sums and training of several instances against plain TensorFlow in as many processes.

* all-reduce: a sum of float32 over 2 and 4 processes with one replica each, in a loop, against
  `all_reduce` of `tf.distribute.MultiWorkerMirroredStrategy` in a loop of a `tf.function`, of 4 B
  to 64 MB. Printed is microseconds for one sum, and the ratio ours / theirs, wanted: <= 1.1.
* cnn: the training loop of `loop_overhead.py` on 2 processes that average their gradients, against
  the same without averaging, on both at the same time. The rest is what a step waits for others.

The processes are started by poprun, all on this machine, so they share its cores. The contenders
take turns in the same processes, so that a change of the machine's speed meets them all; a ratio is
that of their medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable

import parallel
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.distributed.launcher import environment
from tensorflow_ipu.distributed.launcher import main as poprun
from tensorflow_ipu.runtime import native

# Bytes, and sums in one timed loop.
SIZES = {4: 300, 4 << 10: 300, 1 << 20: 30, 16 << 20: 4, 64 << 20: 2}
PROCESSES = (2, 4)
STEPS = parallel.STEPS

Run = Callable[[], object]
Me = environment.InstanceEnvironment


def join(me: Me) -> tf.distribute.Strategy:
    """Makes TensorFlow's strategy of these processes, and joins them by the same server."""
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": me.addresses}, "task": {"type": "worker", "index": me.index}}
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    their_sums(strategy, 4, 1)()  # so that the processes know each other
    with tf.device("/device:CPU:0"):
        tasks = [f"/job:worker/replica:0/task:{i}" for i in range(me.count)]
        native.ops().ipu_join_instances(
            tasks=tasks,
            index=me.index,
            seed=0,
            addresses=list(me.addresses),
            limit=environment.collective_timeout(),
        )
    return strategy


def configure(me: Me | None) -> None:
    """Attaches an IPU, for a program of all processes, or of this one alone."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    if me is not None:
        config.experimental.multi_replica_distribution.process_count = me.count
        config.experimental.multi_replica_distribution.process_index = me.index
    config.configure_ipu_system()


def our_sums(size: int, count: int) -> Run:
    """Returns a function that sums `size` bytes over all replicas, `count` times."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    value = tf.zeros([size // 4])
    with strategy.scope():

        @tf.function(jit_compile=True)
        def loop(x: tf.Tensor) -> tf.Tensor:
            return ipu.loops.repeat(count, ipu.cross_replica_ops.cross_replica_sum, [x])

    return lambda: strategy.run(loop, args=(value,))


def their_sums(strategy: tf.distribute.Strategy, size: int, count: int) -> Run:
    """Returns a function that does the same with TensorFlow's strategy."""
    value = tf.zeros([size // 4])

    def replica(x: tf.Tensor) -> tf.Tensor:
        # In a loop, tensors have no device before an op of the replica; the strategy asks for it.
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(x))

    @tf.function
    def loop(x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(count):
            x = strategy.run(replica, args=(x,))
        return x

    return lambda: loop(value)


def measure_all_reduce(me: Me, strategy: tf.distribute.Strategy, rounds: int) -> None:
    """Prints a line for each size, in instance 0."""
    configure(me)
    for size, count in SIZES.items():
        contenders = {"ours": our_sums(size, count), "theirs": their_sums(strategy, size, count)}
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for run in contenders.values():
            run()  # compile
        for _ in range(rounds):
            for name, run in contenders.items():
                times[name].append(parallel.timed(run) / count * 1e6)
        ours, theirs = (statistics.median(times[name]) for name in contenders)
        if me.index == 0:
            print(
                f"all-reduce of {size} B, {me.count} processes: ours {ours:.0f} us, "
                f"MultiWorkerMirroredStrategy {theirs:.0f} us; ratio {ours / theirs:.3f}",
                flush=True,
            )


def measure_cnn(me: Me, rounds: int) -> None:
    """Prints the line of the CNN, in instance 0."""
    times: dict[str, list[float]] = {"alone": [], "together": []}
    for _ in range(rounds):
        for name, instances in (("alone", None), ("together", me)):
            configure(instances)
            run = parallel.replicated_cnn()
            run()  # compile
            times[name].append(parallel.timed(run) / STEPS * 1e3)
    alone, together = (statistics.median(times[name]) for name in times)
    if me.index == 0:
        print(
            f"cnn, {me.count} processes: alone {alone:.3f} ms, together {together:.3f} ms per "
            f"step; waiting {1 - alone / together:.1%}",
            flush=True,
        )


def main() -> None:
    """Starts processes, or is one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    me = environment.read()
    if me is None:
        for count in PROCESSES:
            words = [sys.executable, __file__, "--rounds", str(arguments.rounds)]
            code = poprun.main(["--num-instances", str(count), *words])
            if code:
                sys.exit(code)
        return
    strategy = join(me)
    measure_all_reduce(me, strategy, arguments.rounds)
    if me.count == 2:
        measure_cnn(me, arguments.rounds)


if __name__ == "__main__":
    main()
