"""Times replicas and pipelines against plain TensorFlow alone, in one process.

* cnn: the training loop of `loop_overhead.py` on N replicas that average their gradients, against
  N times as many steps of the loop in plain TensorFlow. Printed is (N replicas) / (N sequential
  steps), wanted: <= 1.1 for N = 2, 4, 8.
* all-reduce: a sum of 4 floats over 4 replicas in a loop, in microseconds with everything that an
  iteration costs. Wanted: <= 20.
* pipeline: the CNN in 4 stages, 128 mini-batches accumulated for one update, against the same
  arithmetic in a plain in-graph loop. Wanted: <= 1.1.

The contenders take turns, on the same dataset, so that a change of the machine's speed meets them
all; a ratio is that of their medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import loop_overhead
import tensorflow as tf
from tensorflow.python import ipu

STEPS = 50
COLLECTIVES = 5000
MINI_BATCHES = 128
# Small, as the gradients of all mini-batches are summed.
PIPELINE_LEARNING_RATE = loop_overhead.LEARNING_RATE / MINI_BATCHES

Run = Callable[[], object]


def configure(replicas: int) -> None:
    """Attaches as many IPUs; programs compiled from now on have as many replicas."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()


def training_step() -> loop_overhead.Step:
    """Returns a step of gradient descent with gradients averaged over replicas."""
    network, shapes = loop_overhead.MODELS["cnn"]
    weights = loop_overhead.variables(shapes)

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = network(weights, images)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            mean = ipu.cross_replica_ops.cross_replica_mean(gradient)
            weight.assign_sub(loop_overhead.LEARNING_RATE * mean)
        return loss

    return step


def plain_cnn() -> Run:
    """Returns a function that runs `STEPS` steps in plain TensorFlow."""
    step, iterator = loop_overhead.training_step("cnn"), iter(loop_overhead.dataset())

    @tf.function
    def loop() -> tf.Tensor:
        loss = tf.constant(0.0)
        for _ in tf.range(STEPS):
            loss = step(*next(iterator))
        return loss

    return loop


def replicated_cnn() -> Run:
    """Returns a function that runs `STEPS` steps on every replica."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        step, iterator = training_step(), iter(loop_overhead.dataset())

        @tf.function(jit_compile=True)
        def loop() -> tf.Tensor:
            loss = tf.constant(0.0)
            for _ in tf.range(STEPS):
                loss = step(*next(iterator))
            return loss

    return lambda: strategy.run(loop)


def all_reduces() -> Run:
    """Returns a function that does `COLLECTIVES` sums of 4 floats over all replicas."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def loop() -> tf.Tensor:
            def body(x: tf.Tensor) -> tf.Tensor:
                return ipu.cross_replica_ops.cross_replica_sum(x)

            return ipu.loops.repeat(COLLECTIVES, body, [tf.zeros([4])])

    return lambda: strategy.run(loop)


def stages(weights: list[tf.Variable]) -> list[Callable[..., object]]:
    """Returns the CNN of `loop_overhead.py` and its loss in 4 stages."""

    def convolution(x: tf.Tensor, labels: tf.Tensor, layer: int) -> tuple[tf.Tensor, tf.Tensor]:
        kernel, bias = weights[2 * layer : 2 * layer + 2]
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "VALID"), bias))
        return tf.nn.max_pool2d(x, 2, 2, "VALID"), labels

    def dense(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.reshape(x, [-1, 5 * 5 * 64]) @ weights[4] + weights[5], labels

    def loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_mean(losses)

    return [
        lambda x, labels: convolution(x, labels, 0),
        lambda x, labels: convolution(x, labels, 1),
        dense,
        loss,
    ]


def plain_accumulation() -> Run:
    """Returns a function that accumulates `MINI_BATCHES` gradients in plain TensorFlow."""
    weights = loop_overhead.variables(loop_overhead.MODELS["cnn"][1])
    totals = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    iterator = iter(loop_overhead.dataset())
    *hidden, last = stages(weights)

    @tf.function
    def loop() -> None:
        for _ in tf.range(MINI_BATCHES):
            x, labels = next(iterator)
            with tf.GradientTape() as tape:
                for stage in hidden:
                    x, labels = stage(x, labels)
                loss = last(x, labels)
            for total, gradient in zip(totals, tape.gradient(loss, weights)):
                total.assign_add(gradient)
        for total, weight in zip(totals, weights):
            weight.assign_sub(PIPELINE_LEARNING_RATE * total)
            total.assign(tf.zeros_like(total))

    return loop


def pipeline() -> Run:
    """Returns a function that does the same in a pipeline on 4 IPUs."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        weights = loop_overhead.variables(loop_overhead.MODELS["cnn"][1])
        infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(loop_overhead.dataset())
        _ = infeed_queue.initializer

        def optimizer_function(loss: tf.Tensor) -> ipu.pipelining_ops.OptimizerFunctionOutput:
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(PIPELINE_LEARNING_RATE)
            return ipu.pipelining_ops.OptimizerFunctionOutput(
                optimizer, loss, compute_gradients_kwargs={"var_list": weights}
            )

        @tf.function(jit_compile=True)
        def program() -> None:
            ipu.pipelining_ops.pipeline(
                stages(weights),
                gradient_accumulation_count=MINI_BATCHES,
                infeed_queue=infeed_queue,
                optimizer_function=optimizer_function,
                outfeed_mask=[True],
            )

    return lambda: strategy.run(program)


def timed(run: Run) -> float:
    """Returns how long a call takes, in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare_cnn(replicas: int, rounds: int) -> None:
    """Prints the line of the CNN for a number of replicas."""
    configure(replicas)
    contenders = {"plain": plain_cnn(), "replicated": replicated_cnn()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # compile
    for _ in range(rounds):
        for name, run in contenders.items():
            # As long as the other: N times the steps.
            calls = replicas if name == "plain" else 1
            times[name].append(sum(timed(run) for _ in range(calls)) / (STEPS * replicas) * 1e3)
    plain, replicated = (statistics.median(times[name]) for name in contenders)
    print(
        f"cnn, {replicas} replicas: plain {plain:.3f} ms, replicated {replicated:.3f} ms per step "
        f"of one replica; replicated/plain {replicated / plain:.3f}"
    )


def measure_all_reduce(replicas: int, rounds: int) -> None:
    """Prints the line of the small all-reduce."""
    configure(replicas)
    run = all_reduces()
    run()  # compile
    times = [timed(run) / COLLECTIVES * 1e6 for _ in range(rounds)]
    print(f"all-reduce of 4 floats, {replicas} replicas: {statistics.median(times):.1f} us")


def compare_pipeline(rounds: int) -> None:
    """Prints the line of the pipeline."""
    configure(4)
    contenders = {"plain": plain_accumulation(), "pipeline": pipeline()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # compile
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(timed(run) / MINI_BATCHES * 1e3)
    plain, pipelined = (statistics.median(times[name]) for name in contenders)
    print(
        f"pipeline of 4 stages: plain {plain:.3f} ms, pipeline {pipelined:.3f} ms per mini-batch; "
        f"pipeline/plain {pipelined / plain:.3f}"
    )


def main() -> None:
    """Measures everything and prints a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    for replicas in (2, 4, 8):
        compare_cnn(replicas, arguments.rounds)
    measure_all_reduce(4, arguments.rounds)
    compare_pipeline(arguments.rounds)


if __name__ == "__main__":
    main()
