"""Measures memory and time of data-parallel training by the number of replicas.

It prints a line for each figure, with its bound:

* memory: peak memory of a process that trains on N replicas, over that on one. Models: three dense
  layers of 115 MB with SGD ("dense"), the same with Adam and four mini-batches accumulated
  ("adam"), and in a pipeline of 4 stages ("pipeline").
* time: one step on N replicas over N steps on one, of the dense model, whose update takes longest,
  and of a CNN, whose kernels do.
* first: the first execution with N replicas over that with one, both without their steps.
* remote: peak memory with a PopXL variable of 67 MB for each of four groups of replicas, in a
  remote buffer that each run loads, updates and stores: 16 replicas over 4.
* bert: peak memory of a step of a model as large as BERT-Base, 16 replicas with a sample of 128
  tokens each.
* scan: a loop of 200 steps of an MLP on one replica over `lax.scan` in JAX, which need not be
  installed (`--jax-python` names the interpreter of another environment that has it). Both use two
  threads for matrix products, so a busy core makes the ratio worthless.

Each model and number of replicas has a process of its own. Its peak memory comes from
`getrusage`. A process that takes more than `--limit` is ended, and its figure is "does not fit".
Processes that are compared take turns, so that a change of the machine's speed meets all. A ratio
is one of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import tensorflow as tf

WIDTH = 3096  # three layers of WIDTH x WIDTH float32 are 115 MB
DENSE_LAYERS, STAGES, ACCUMULATED = 3, 4, 4
DENSE_BATCH, CNN_BATCH = 8, 32
STEPS = 4  # of an execution, in updates; the CNN's has CNN_STEPS
CNN_STEPS = 25
WORDS, HIDDEN, BLOCKS, HEADS, TOKENS = 30522, 768, 12, 12, 128  # of BERT-Base
SCAN_STEPS, SCAN_BATCH, SCAN_SIZES = 200, 32, (784, 256, 128, 10)
RATE = 0.01
REMOTE_WIDTH, REMOTE_GROUPS = 4096, 4  # a square of float32 has 67 MB
GIGABYTE = 10**9
INTERVAL = 0.05  # seconds between looks at the memory of a process
# Starts the line of a child that has the measurement.
MARK = "measured: "
# The replicas that bounds are for, and the bounds.
BOUNDED = 16
BOUNDS = {
    "memory of dense": 1.6,
    "memory of adam": 1.8,
    "memory of pipeline": 1.8,
    "memory of 64": 1.15,
    "memory of remote": 1.15,
    "time of dense": 0.5,
    "time of cnn": 0.75,
    "first": 2,
}

Run = Callable[[], object]


class Measured(NamedTuple):
    """Measurements of one process.

    Args:
        peak: its peak memory, in bytes.
        first: seconds of the first execution, with the compilation.
        step: median seconds of a step (an update of all replicas) in later executions.
    """

    peak: float
    first: float
    step: float


class Case(NamedTuple):
    """A program to measure.

    Args:
        make: makes the program for a number of replicas, and returns one execution of it.
        steps: updates in an execution.
        ipus: IPUs of a replica.
    """

    make: Callable[[int], Run]
    steps: int = STEPS
    ipus: int = 1


# --- Programs; only the processes that run them import TensorFlow ---


def configure(ipus: int) -> None:
    """Attaches IPUs, also more than the machine's 16."""
    from tensorflow.python import ipu

    from tensorflow_ipu.runtime import system

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    system.reconfigure(config)


def fit(
    make: Callable[[], tf.keras.Model], batch: int, steps: int, replicas: int, optimizer: str
) -> Run:
    """Returns a function that trains a model of logits for one execution.

    Args:
        make: makes the model, in the scope of a strategy.
        batch: samples of a mini-batch.
        steps: mini-batches of each replica.
        replicas: the number of replicas.
        optimizer: name of Keras's optimizer.
    """
    import tensorflow as tf
    from tensorflow.python import ipu

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = make()
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, steps_per_execution=steps)
    inputs = tf.zeros([batch, *model.input_shape[1:]], model.inputs[0].dtype)
    labels = tf.zeros([batch, *model.output_shape[1:-1]], tf.int32)
    batches = tf.data.Dataset.from_tensors((inputs, labels)).repeat()

    def run() -> None:
        with strategy.scope():
            model.fit(batches, steps_per_epoch=steps * replicas, verbose=0)

    return run


def dense_model() -> tf.keras.Model:
    """Returns three dense layers of 115 MB."""
    import tensorflow as tf

    layers = [tf.keras.layers.Dense(WIDTH) for _ in range(DENSE_LAYERS)]
    return tf.keras.Sequential([tf.keras.Input((WIDTH,)), *layers])


def dense(replicas: int) -> Run:
    """Trains the dense layers with SGD."""
    return fit(dense_model, DENSE_BATCH, STEPS, replicas, "sgd")


def adam(replicas: int) -> Run:
    """Trains the dense layers with Adam, four mini-batches for an update."""

    def make() -> tf.keras.Model:
        model = dense_model()
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=ACCUMULATED,
            gradient_accumulation_reduction_method="mean",
        )
        return model

    return fit(make, DENSE_BATCH, STEPS * ACCUMULATED, replicas, "adam")


def pipeline(replicas: int) -> Run:
    """Trains the dense layers in a pipeline; its last stage has a small layer of its own."""
    import tensorflow as tf
    from tensorflow.python import ipu

    mini_batches = 2 * STAGES

    def make() -> tf.keras.Model:
        x = inputs = tf.keras.Input((WIDTH,))
        for stage, width in enumerate([WIDTH] * DENSE_LAYERS + [STAGES]):
            with ipu.keras.PipelineStage(stage):
                x = tf.keras.layers.Dense(width)(x)
        model = tf.keras.Model(inputs, x)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=mini_batches,
            gradient_accumulation_reduction_method="mean",
        )
        return model

    return fit(make, DENSE_BATCH, STEPS * mini_batches, replicas, "sgd")


def cnn(replicas: int) -> Run:
    """Trains the CNN of `loop_overhead.py` with SGD."""
    import loop_overhead

    def make() -> tf.keras.Model:
        model = loop_overhead.keras_model("cnn")
        model.build((None, 28, 28, 1))
        return model

    return fit(make, CNN_BATCH, CNN_STEPS, replicas, "sgd")


def remote(replicas: int) -> Run:
    """Updates a variable of each group of replicas in a remote buffer; brings it to the host."""
    import numpy as np
    import popxl
    from popxl import ops

    ir = popxl.Ir(replicas)
    group = ir.replica_grouping(group_size=replicas // REMOTE_GROUPS)
    shape = (REMOTE_WIDTH, REMOTE_WIDTH)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer(shape, popxl.float32)
        start = np.ones((REMOTE_GROUPS, *shape), np.float32)
        popxl.remote_variable(start, buffer, replica_grouping=group)
        stream = popxl.h2d_stream((), popxl.float32)
        mean = ops.collectives.replicated_all_reduce(ops.host_load(stream), "mean", group)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) * mean)
    session = popxl.Session(ir, "ipu_hw")
    session.__enter__()
    factors = np.linspace(0.5, 1.5, replicas, dtype=np.float32)

    def run() -> None:
        for _ in range(STEPS):
            session.run({stream: factors})
        session.weights_to_host()

    return run


def bert(replicas: int) -> Run:
    """Trains an encoder as large as BERT-Base with SGD to tell two classes apart."""
    import tensorflow as tf

    layers = tf.keras.layers

    def make() -> tf.keras.Model:
        words = layers.Input((TOKENS,), dtype="int32")
        x = layers.LayerNormalization()(layers.Embedding(WORDS, HIDDEN)(words))
        for _ in range(BLOCKS):
            attention = layers.MultiHeadAttention(HEADS, HIDDEN // HEADS)(x, x)
            x = layers.LayerNormalization()(x + attention)
            wide = layers.Dense(4 * HIDDEN, "gelu")(x)
            x = layers.LayerNormalization()(x + layers.Dense(HIDDEN)(wide))
        return tf.keras.Model(words, layers.Dense(2)(x[:, 0]))

    return fit(make, 1, 1, replicas, "sgd")


def scan_ipu(replicas: int) -> Run:
    """A loop of steps of an MLP over mini-batches that are in the program's arguments."""
    import tensorflow as tf
    from tensorflow.python import ipu

    del replicas
    strategy = ipu.ipu_strategy.IPUStrategy()
    images = tf.random.stateless_uniform([SCAN_STEPS, SCAN_BATCH, SCAN_SIZES[0]], [1, 2])
    labels = tf.random.stateless_uniform(
        [SCAN_STEPS, SCAN_BATCH], [3, 4], 0, SCAN_SIZES[-1], tf.int32
    )
    with strategy.scope():
        shapes = list(zip(SCAN_SIZES, SCAN_SIZES[1:]))
        kernels = [tf.Variable(0.05 * tf.random.stateless_normal(s, [5, 6])) for s in shapes]
        biases = [tf.Variable(tf.zeros(s[1])) for s in shapes]

        @tf.function(jit_compile=True)
        def loop(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            loss = tf.constant(0.0)
            for step in tf.range(SCAN_STEPS):
                with tf.GradientTape() as tape:
                    x = images[step]
                    for kernel, bias in zip(kernels[:-1], biases[:-1]):
                        x = tf.nn.relu(x @ kernel + bias)
                    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                        labels[step], x @ kernels[-1] + biases[-1]
                    )
                    loss = tf.reduce_mean(losses)
                weights = kernels + biases
                for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                    weight.assign_sub(RATE * gradient)
            return loss

    return lambda: strategy.run(loop, args=(images, labels)).numpy()


def scan_jax(replicas: int) -> Run:
    """The same in JAX."""
    import jax
    import jax.numpy as jnp

    del replicas
    key = jax.random.PRNGKey(0)
    images = jax.random.uniform(key, (SCAN_STEPS, SCAN_BATCH, SCAN_SIZES[0]))
    labels = jax.random.randint(key, (SCAN_STEPS, SCAN_BATCH), 0, SCAN_SIZES[-1])
    shapes = list(zip(SCAN_SIZES, SCAN_SIZES[1:]))
    weights = [(0.05 * jax.random.normal(key, s), jnp.zeros(s[1])) for s in shapes]

    def loss_of(weights, x, labels):
        for kernel, bias in weights[:-1]:
            x = jax.nn.relu(x @ kernel + bias)
        logits = x @ weights[-1][0] + weights[-1][1]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return -jnp.mean(chosen)

    def step(weights, element):
        loss, gradients = jax.value_and_grad(loss_of)(weights, *element)
        return jax.tree.map(lambda w, g: w - RATE * g, weights, gradients), loss

    loop = jax.jit(lambda w, x, y: jax.lax.scan(step, w, (x, y)), donate_argnums=0)
    state = [weights]

    def run() -> float:
        state[0], losses = loop(state[0], images, labels)
        return float(losses[-1])

    return run


CASES = {
    "dense": Case(dense),
    "adam": Case(adam),
    "pipeline": Case(pipeline, ipus=STAGES),
    "cnn": Case(cnn, CNN_STEPS),
    "remote": Case(remote),
    "bert": Case(bert, 1),
    "scan_ipu": Case(scan_ipu, SCAN_STEPS),
    "scan_jax": Case(scan_jax, SCAN_STEPS),
}


# --- A process that measures, and its parent ---


def measure(name: str, replicas: int, executions: int) -> Measured:
    """Measures a case in this process."""
    case = CASES[name]
    if name not in ("scan_jax", "remote"):  # a session of PopXL attaches its own device
        configure(case.ipus * replicas)
    run = case.make(replicas)
    first, *times = (timed(run) for _ in range(1 + executions))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Measured(peak, first, statistics.median(times) / case.steps)


def timed(run: Run) -> float:
    """Returns the seconds of a call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_child(name: str, replicas: int, options: argparse.Namespace) -> Measured | None:
    """Measures a case in a new process; returns None if it takes more memory than the limit."""
    python = options.jax_python if name == "scan_jax" else sys.executable
    words = [python, __file__, "--case", name, "--replicas", str(replicas)]
    words += ["--executions", str(options.executions)]
    flags = f"{os.environ.get('TF_POPLAR_FLAGS', '')} --capacity_policy=mark"
    environment = {**os.environ, "TF_POPLAR_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(words, env=environment, stdout=said, stderr=errors)
        while child.poll() is None:
            if resident(child.pid) > options.limit * GIGABYTE:
                child.kill()
                child.wait()
                return None
            time.sleep(INTERVAL)
        said.seek(0)
        for line in said:
            if line.startswith(MARK):
                return Measured(*json.loads(line.removeprefix(MARK)))
        errors.seek(0)
        tail = errors.read()[-4000:]
    sys.exit(f"{name}, {replicas} replicas: exit code {child.returncode}\n{tail}")


def resident(pid: int) -> int:
    """Returns the bytes of memory that a process has now; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def in_turns(
    cases: Sequence[tuple[str, int]], options: argparse.Namespace
) -> list[Measured | None]:
    """Measures cases in turns.

    Args:
        cases: name and number of replicas of each.
        options: of the command line.

    Returns:
        The medians of each; None for one that takes more memory than the limit.
    """
    rounds: list[list[Measured]] = [[] for _ in cases]
    too_large = set()
    for _ in range(options.rounds):
        for index, (name, replicas) in enumerate(cases):
            if index in too_large:
                continue
            measured = in_child(name, replicas, options)
            if measured is None:
                too_large.add(index)
            else:
                rounds[index].append(measured)
    return [
        None if index in too_large else Measured(*map(statistics.median, zip(*found)))
        for index, found in enumerate(rounds)
    ]


# --- Figures ---


def say(name: str, value: float | None, bound: float | None, details: str) -> None:
    """Prints the line of a figure; its bound is None if it is only for comparison."""
    shown = "does not fit" if value is None else f"{value:.2f}"
    wanted = "" if bound is None else f"wanted: <= {bound:g}; "
    print(f"{name}: {shown} ({wanted}{details})", flush=True)


def compare(
    title: str,
    found: Mapping[int, Measured | None],
    value: Callable[[Measured], float],
    bound: float | None,
    shown: Callable[[Measured], str],
) -> None:
    """Prints the value of the first measurement divided by the value of the last.

    Args:
        title: name of the figure.
        found: measurements by number of replicas.
        value: the value of a measurement.
        bound: most that is wanted; None for no bound.
        shown: the value with its unit.
    """
    first, *_, last = found.values()
    ratio = None if first is None or last is None else value(first) / value(last)
    parts = (f"{n}: {'too large' if m is None else shown(m)}" for n, m in found.items())
    say(title, ratio, bound, ", ".join(parts))


def print_scaling(name: str, counts: Sequence[int], options: argparse.Namespace) -> None:
    """Prints memory, time and first execution of a model for numbers of replicas."""
    counts = sorted({1, *counts})
    found = dict(zip(counts, in_turns([(name, count) for count in counts], options)))
    steps = CASES[name].steps

    def start(measured: Measured) -> float:
        return measured.first - measured.step * steps

    for count in counts[1:]:
        two = {count: found[count], 1: found[1]}
        bounds = BOUNDS if count == BOUNDED else {}
        if name != "cnn":
            title = f"memory of {name}, {count} replicas / 1"
            compare(title, two, lambda m: m.peak, bounds.get(f"memory of {name}"), gigabytes)
        title = f"time of {name}, a step of {count} replicas / {count} steps of 1"
        each = {count: _share(found[count], count), 1: found[1]}
        compare(title, each, lambda m: m.step, bounds.get(f"time of {name}"), milliseconds)
        title = f"first execution of {name}, {count} replicas / 1"
        compare(title, two, start, bounds.get("first"), lambda m: f"{start(m):.2f} s")
    if name != "cnn" and {16, 64} <= found.keys():
        title = f"memory of {name}, 64 replicas / 16"
        two = {64: found[64], 16: found[16]}
        compare(title, two, lambda m: m.peak, BOUNDS["memory of 64"], gigabytes)


def _share(measured: Measured | None, replicas: int) -> Measured | None:
    """Returns a measurement with the time of a step of one of the replicas."""
    return measured and measured._replace(step=measured.step / replicas)


def gigabytes(measured: Measured) -> str:
    """Returns the peak memory with its unit."""
    return f"{measured.peak / GIGABYTE:.2f} GB"


def milliseconds(measured: Measured) -> str:
    """Returns the time of a step with its unit."""
    return f"{measured.step * 1e3:.1f} ms"


def print_bert(options: argparse.Namespace) -> None:
    """Prints the peak memory of the model as large as BERT-Base."""
    (measured,) = in_turns([("bert", 16)], options)
    size = None if measured is None else measured.peak / GIGABYTE
    step = "no step" if measured is None else f"{measured.step:.1f} s a step"
    say("memory of bert, 16 replicas, in GB", size, 6, step)


def print_remote(options: argparse.Namespace) -> None:
    """Prints the peak memory with a remote variable of each group."""
    counts = (BOUNDED, REMOTE_GROUPS)
    found = dict(zip(counts, in_turns([("remote", count) for count in counts], options)))
    title = f"memory of remote, {BOUNDED} replicas / {REMOTE_GROUPS}, in {REMOTE_GROUPS} groups"
    compare(title, found, lambda m: m.peak, BOUNDS["memory of remote"], gigabytes)


def print_scan(options: argparse.Namespace) -> None:
    """Prints the time of the MLP against JAX."""
    probe = [options.jax_python, "-c", "import jax"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        print("time of an MLP loop, ipu / lax.scan: JAX is not installed")
        return
    ours, theirs = in_turns([("scan_ipu", 1), ("scan_jax", 1)], options)
    if ours is None or theirs is None:
        print(f"time of an MLP loop, ipu / lax.scan: more than {options.limit} GB")
        return
    details = f"ipu {ours.step * 1e3:.3f} ms, JAX {theirs.step * 1e3:.3f} ms"
    say("time of an MLP loop, ipu / lax.scan", ours.step / theirs.step, 1, details)


FIGURES = ("dense", "adam", "pipeline", "cnn", "remote", "bert", "scan")


def available() -> float:
    """Returns three quarters of the memory that is available, in gigabytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return round(0.75 * kilobytes * 1024 / GIGABYTE, 1)


def main() -> None:
    """Measures the chosen figures, or is one of the processes that measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="processes of each case")
    parser.add_argument("--executions", type=int, default=3, help="timed executions of each")
    parser.add_argument("--figures", nargs="+", choices=FIGURES, default=FIGURES)
    parser.add_argument("--replicas", nargs="+", type=int, default=(1, 4, 16, 64))
    parser.add_argument(
        "--limit", type=float, default=available(), help="GB that a process may need"
    )
    parser.add_argument(
        "--jax-python", default=sys.executable, help="an interpreter that can import JAX"
    )
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        print(MARK + json.dumps(measure(options.case, options.replicas[0], options.executions)))
        return
    for name in options.figures:
        if name == "remote":
            print_remote(options)
        elif name == "bert":
            print_bert(options)
        elif name == "scan":
            print_scan(options)
        else:
            print_scaling(name, options.replicas, options)


if __name__ == "__main__":
    main()
