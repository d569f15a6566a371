"""Programs of several instances in which something goes wrong, for tests of faults.

    python -m tests.support.processes.fault_programs faults
    python -m tests.support.processes.fault_programs train FOLDER KILLED_AFTER

Instance 1 is the one with the faults.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.processes import instances

# Seconds, of an exchange: longer than it takes to notice that an instance was stopped.
LIMIT = 9
STEPS, SAVED, KILLED = 6, 2, 4  # steps of training: in all, before the checkpoint, before the end


def faults() -> None:
    """Runs one program after the other, and reports the outcome of each."""
    me = instances.join()
    instances.configure(me)
    import tensorflow as tf
    from tensorflow.python import ipu

    from tensorflow_ipu.runtime import native

    strategy = ipu.ipu_strategy.IPUStrategy()
    is_faulty = me.index == 1
    release = threading.Event()

    def elements(fault: str, good: int) -> Iterator[float]:
        for _ in range(good):
            yield 1.0
        if not is_faulty:
            yield from (1.0 for _ in range(100))
        elif fault == "error":
            raise ValueError("the data are broken")
        elif fault == "hang":
            release.wait()

    def program(change: Callable[[Any], Any]) -> Any:
        @tf.function(jit_compile=True)
        def total(iterator: Any) -> Any:
            result = 0.0
            for _ in tf.range(3):
                summed = ipu.ops.cross_replica_ops.cross_replica_sum(next(iterator))
                result += change(summed)
            return result

        return total

    def run(name: str, fault: str, good: int, function: Any) -> None:
        data = tf.data.Dataset.from_generator(
            lambda: elements(fault, good), output_signature=tf.TensorSpec([], tf.float32)
        )
        _report(name, lambda: float(strategy.run(function, args=(iter(data),))))

    def interrupt() -> None:
        while not native.counts().launches:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    same = program(lambda x: x * 1.0)
    with strategy.scope():
        if me.index == 0:  # what it does alone changes the names of functions
            strategy.run(tf.function(lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])))
        run("good", "", 3, same)
        run("error", "error", 1, same)
        run("error before the first collective", "error", 0, same)
        run("short", "end", 1, same)
        run("good again", "", 3, same)
        if is_faulty:
            threading.Thread(target=interrupt, daemon=True).start()
        run("interrupt", "hang", 1, same)
        release.set()
        run(
            "other program",
            "",
            3,
            program((lambda x: x * 2.0) if is_faulty else (lambda x: x + 2.0)),
        )
        run("good at last", "", 3, same)
        if is_faulty:
            signal.sigwait({signal.SIGUSR1})  # the test sends it when the others have given up
        run("late", "", 3, same)
        if is_faulty:
            os.kill(os.getpid(), signal.SIGSTOP)
        run("stopped", "", 3, same)
    raise SystemExit(7)


def _report(name: str, function: Callable[[], float]) -> None:
    """Reports the result or error of a program."""
    import tensorflow as tf

    began = time.monotonic()
    try:
        instances.report(name=name, result=function())
    except (tf.errors.OpError, KeyboardInterrupt) as error:
        seconds = time.monotonic() - began
        kind = type(error).__name__
        instances.report(name=name, error=kind, message=str(error), seconds=seconds)


def train(folder: str, killed_after: str) -> None:
    """Trains from the last checkpoint on, and then from the beginning, and reports the weights."""
    me = instances.join()
    instances.configure(me)
    import tensorflow as tf
    from tensorflow.python import ipu

    strategy = ipu.ipu_strategy.IPUStrategy()

    @tf.function(jit_compile=True)
    def step(weights: Any, momentum: Any, x: Any) -> None:
        gradient = ipu.ops.cross_replica_ops.cross_replica_sum(tf.sin(weights * x) / 3.0)
        momentum.assign(momentum * 0.9 + gradient)
        weights.assign_sub(momentum * 0.1)

    def trained(path: Path | None, killed: int) -> Any:
        weights = tf.Variable(tf.linspace(0.1, 1.7, 50))
        momentum = tf.Variable(tf.zeros([50]))
        done = tf.Variable(0, dtype=tf.int64)
        checkpoint = tf.train.Checkpoint(weights=weights, momentum=momentum, done=done)
        found = tf.train.latest_checkpoint(str(path)) if path is not None else None
        if found:
            checkpoint.restore(found).assert_consumed()
        first = int(done)
        for number in range(first, STEPS):
            strategy.run(step, args=(weights, momentum, tf.constant(me.index + number + 0.7)))
            done.assign_add(1)
            if path is not None and number + 1 == SAVED:
                checkpoint.save(str(path / "checkpoint"))
            if number + 1 == killed and me.index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return first, weights.numpy()

    with strategy.scope():
        first, weights = trained(Path(folder) / str(me.index), int(killed_after))
        instances.report(first=first, weights=weights)
        instances.report(straight=trained(None, 0)[1])


def late(seconds: str) -> None:
    """Reports the outcome of joining, and stays until the test ends it."""
    import tensorflow as tf

    for _ in range(2):
        try:
            instances.join(float(seconds))
            instances.report(joined=True)
        except (tf.errors.OpError, RuntimeError) as error:
            instances.report(error=type(error).__name__, message=str(error))
    signal.sigwait({signal.SIGUSR1})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # before there are threads
    {"faults": faults, "train": train, "late": late}[sys.argv[1]](*sys.argv[2:])
