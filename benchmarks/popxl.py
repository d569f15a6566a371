"""Times training with PopXL against the same computation in plain TensorFlow, in one process.

* A program that does next to nothing: microseconds of a `run`, which is what one costs besides the
  computation, and of a call of a `tf.function` with the same arrays.
* An MLP with steps of about 10 ms, and a transformer of 24 layers that are calls of one graph, both
  trained with Adam: seconds from the Ir to the end of the first run (wanted for the transformer:
  <= 60 on 2 cores) against those of the first call of a `tf.function`, and milliseconds of a step
  through `session.run` against those of a call, both fed with arrays (wanted: popxl/plain <= 1.1).

The contenders take turns; times of runs and steps are medians. Both start with the same weights, so
their losses, which are printed, should be equal.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable

import numpy as np
import popxl
import popxl_addons as addons
import tensorflow as tf
from popxl import ops
from popxl_addons.layers import LayerNorm, Linear
from popxl_addons.optimizers import AdamOptimizerStep

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-5
CLASSES = 64
BATCH, FEATURES = 64, 640  # of the MLP
SEQUENCES, LENGTH, WIDTH, HEADS = 2, 64, 128, 4  # of the transformer
HEAD_SHAPE = (SEQUENCES, LENGTH, HEADS, WIDTH // HEADS)
TINY = (32, 8)

Step = Callable[[np.ndarray, np.ndarray], float]
Weights = dict[str, tf.Variable]


class Mlp(addons.Module):
    """Two hidden layers and the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = Linear(FEATURES), Linear(FEATURES), Linear(CLASSES)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the logits."""
        return self.fc3(ops.relu(self.fc2(ops.relu(self.fc1(x)))))


class Block(addons.Module):
    """A layer of a transformer: attention and a network of two layers, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(), LayerNorm()
        self.q, self.k, self.v, self.out = (Linear(WIDTH) for _ in range(4))
        self.wide, self.narrow = Linear(4 * WIDTH), Linear(WIDTH)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns a tensor like x, tokens x features."""
        h = self.norm1(x)
        q, k, v = (
            part(h).reshape(HEAD_SHAPE).transpose((0, 2, 1, 3)) for part in (self.q, self.k, self.v)
        )
        scores = ops.softmax(q @ k.transpose((0, 1, 3, 2)) * (HEAD_SHAPE[-1] ** -0.5), -1)
        x = x + self.out((scores @ v).transpose((0, 2, 1, 3)).reshape(x.shape))
        return x + self.narrow(ops.gelu(self.wide(self.norm2(x))))


def linear(w: Weights, name: str, x: tf.Tensor) -> tf.Tensor:
    """Computes `Linear`."""
    return x @ w[f"{name}weight"] + w[f"{name}bias"]


def plain_mlp(w: Weights, x: tf.Tensor) -> tf.Tensor:
    """Computes `Mlp`."""
    h = tf.nn.relu(linear(w, "fc2.", tf.nn.relu(linear(w, "fc1.", x))))
    return linear(w, "fc3.", h)


def plain_norm(w: Weights, name: str, x: tf.Tensor) -> tf.Tensor:
    """Computes `LayerNorm`."""
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * w[f"{name}weight"] + w[f"{name}bias"]


def plain_block(w: Weights, x: tf.Tensor) -> tf.Tensor:
    """Computes `Block`."""
    h = plain_norm(w, "norm1.", x)
    q, k, v = (
        tf.transpose(tf.reshape(linear(w, name, h), HEAD_SHAPE), (0, 2, 1, 3))
        for name in ("q.", "k.", "v.")
    )
    scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * HEAD_SHAPE[-1] ** -0.5)
    x += linear(w, "out.", tf.reshape(tf.transpose(scores @ v, (0, 2, 1, 3)), x.shape))
    h = tf.nn.gelu(linear(w, "wide.", plain_norm(w, "norm2.", x)), approximate=True)
    return x + linear(w, "narrow.", h)


def plain_head(w: Weights, x: tf.Tensor) -> tf.Tensor:
    """Computes `Linear` alone."""
    return linear(w, "", x)


@dataclasses.dataclass
class Model:
    """A chain of modules; repeated modules share one graph.

    Attributes:
        shape: Shape of the input.
        modules: The modules.
        plain: For each module the same computation in TensorFlow.
    """

    shape: tuple[int, int]
    modules: list[addons.Module]
    plain: list[Callable[[Weights, tf.Tensor], tf.Tensor]]

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns random inputs and labels."""
        generator = np.random.default_rng(0)
        inputs = generator.normal(size=self.shape).astype(np.float32)
        return inputs, generator.integers(0, CLASSES, self.shape[0], dtype=np.int32)


def transformer(layers: int) -> Model:
    """Returns a transformer with logits for each token."""
    plain = [plain_block] * layers + [plain_head]
    return Model((SEQUENCES * LENGTH, WIDTH), [Block()] * layers + [Linear(CLASSES)], plain)


MODELS = {
    "mlp": lambda: Model((BATCH, FEATURES), [Mlp()], [plain_mlp]),
    "transformer": lambda: transformer(24),
}


class PopxlTraining:
    """Trains a model through a session.

    Attributes:
        weights: Initial weights of each module, by name.
    """

    def __init__(self, model: Model) -> None:
        """Builds the Ir, and attaches a session. Nothing is compiled before the first step."""
        self.weights: list[dict[str, np.ndarray]] = []
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            self._inputs = popxl.h2d_stream(model.shape, popxl.float32)
            self._labels = popxl.h2d_stream(model.shape[:1], popxl.int32)
            self._loss = popxl.d2h_stream((), popxl.float32)
            self._build(model.modules)
        self.session = popxl.Session(ir, "ipu_hw")
        self.session.__enter__()

    def _build(self, modules: list[addons.Module]) -> None:
        """Adds a step of training to the main graph."""
        x, labels = ops.host_load(self._inputs), ops.host_load(self._labels)
        graphs, calls = {}, []
        for number, module in enumerate(modules):
            if module not in graphs:
                factories, forward = module.create_graph(x)
                wanted = forward.args.tensors if len(modules) == 1 else None
                graphs[module] = factories, forward, addons.autodiff(forward, None, wanted)
            factories, forward, backward = graphs[module]
            variables = factories.init(f"layer{number}")
            named = variables.to_dict().items()
            self.weights.append({name: variable.data.copy() for name, variable in named})
            call = forward.bind(variables).call_with_info(x)
            calls.append((x, call, backward, variables))
            x = call.outputs[0]
        loss, slope = addons.ops.cross_entropy_with_grad(x, labels)
        ops.host_store(self._loss, loss)
        optimizer = AdamOptimizerStep(cache=True)
        for x, call, backward, variables in reversed(calls):
            info = backward.grad_graph_info
            back = backward.call_with_info(slope, args=info.inputs_dict(call))
            gradients = info.fwd_parent_ins_to_grad_parent_outs(call, back)
            slope = gradients.get(x)
            for variable in variables.tensors:
                update(optimizer, variable, gradients[variable])

    def step(self, inputs: np.ndarray, labels: np.ndarray) -> float:
        """Trains on a batch; returns the loss."""
        return float(self.session.run({self._inputs: inputs, self._labels: labels})[self._loss])


def update(optimizer: AdamOptimizerStep, variable: popxl.Tensor, gradient: popxl.Tensor) -> None:
    """Adds a step of Adam to the current graph."""
    moments, graph = optimizer.create_graph(
        variable,
        gradient,
        lr=RATE,
        beta1=BETA1,
        beta2=BETA2,
        eps=EPSILON,
        weight_decay=0.0,
        first_order_dtype=popxl.float32,
    )
    graph.bind(moments.init(f"{variable.name}.adam")).call(variable, gradient)


def plain_training(model: Model, initial: list[dict[str, np.ndarray]]) -> Step:
    """Returns a function that trains a model on a batch, in plain TensorFlow."""
    weights = [{name: tf.Variable(v) for name, v in values.items()} for values in initial]
    variables = [variable for values in weights for variable in values.values()]
    first, second = ([tf.Variable(tf.zeros_like(v)) for v in variables] for _ in range(2))
    count = tf.Variable(0.0)

    @tf.function
    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            for part, values in zip(model.plain, weights):
                x = part(values, x)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
            loss = tf.reduce_mean(losses)
        number = count.assign_add(1.0)
        gradients = tape.gradient(loss, variables)
        for variable, m, v, gradient in zip(variables, first, second, gradients):
            m.assign(BETA1 * m + (1 - BETA1) * gradient)
            v.assign(BETA2 * v + (1 - BETA2) * gradient * gradient)
            mean, square = m / (1 - BETA1**number), v / (1 - BETA2**number)
            variable.assign_sub(RATE * mean / (tf.sqrt(square) + EPSILON))
        return loss

    return lambda x, labels: float(step(x, labels))


def seconds(run: Callable[[], object]) -> float:
    """Returns how long a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def medians(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Returns the median time of each contender in seconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(seconds(run))
    return {name: statistics.median(values) for name, values in times.items()}


def measure_training(name: str, model: Model, rounds: int) -> None:
    """Prints a line about a model."""
    data = model.data()
    start = time.perf_counter()
    popxl_training = PopxlTraining(model)
    popxl_losses = [popxl_training.step(*data)]
    first = {"popxl": time.perf_counter() - start}
    plain = plain_training(model, popxl_training.weights)
    start = time.perf_counter()
    plain_losses = [plain(*data)]
    first["plain"] = time.perf_counter() - start
    contenders = {
        "popxl": lambda: popxl_losses.append(popxl_training.step(*data)),
        "plain": lambda: plain_losses.append(plain(*data)),
    }
    medians(contenders, 3)
    times = medians(contenders, rounds)
    popxl_training.session.__exit__(None, None, None)
    print(
        f"{name}: first run popxl {first['popxl']:.1f} s, plain {first['plain']:.1f} s; a step "
        f"plain {times['plain'] * 1e3:.2f} ms, popxl {times['popxl'] * 1e3:.2f} ms; popxl/plain "
        f"{times['popxl'] / times['plain']:.3f}; last losses {popxl_losses[-1]:.4f} and "
        f"{plain_losses[-1]:.4f}"
    )


def measure_run(rounds: int) -> None:
    """Prints the time of a run besides the computation."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        inputs = popxl.h2d_stream(TINY, popxl.float32)
        outputs = popxl.d2h_stream(TINY[1:], popxl.float32)
        total = popxl.variable(np.zeros(TINY[1:], np.float32))
        total += ops.sum(ops.host_load(inputs), 0)
        ops.host_store(outputs, total)
    variable, data = tf.Variable(tf.zeros(TINY[1:])), np.ones(TINY, np.float32)

    @tf.function
    def plain(x: tf.Tensor) -> tf.Tensor:
        return variable.assign_add(tf.reduce_sum(x, 0))

    with popxl.Session(ir, "ipu_hw") as session:
        contenders = {
            "popxl": lambda: session.run({inputs: data})[outputs],
            "plain": lambda: plain(data).numpy(),
        }
        medians(contenders, 20)
        times = medians(contenders, rounds)
    print(
        f"overhead: a run {times['popxl'] * 1e6:.0f} us, a call of a plain tf.function "
        f"{times['plain'] * 1e6:.0f} us; ratio {times['popxl'] / times['plain']:.2f}"
    )


def main() -> None:
    """Measures the overhead and the models, and prints a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30, help="steps of each contender")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    arguments = parser.parse_args()
    measure_run(100 * arguments.rounds)
    for name in arguments.models:
        measure_training(name, MODELS[name](), arguments.rounds)


if __name__ == "__main__":
    main()
