"""Trains a network on real digits with PopXL on simulated IPUs, then tests it.

`python examples/popxl_digits.py` runs an epoch at a time: the loop over batches is on the device.

`examples/popxl_addons_digits.py` is the same made of modules. docs/popxl.md explains the parts.
"""

from __future__ import annotations

import argparse

import numpy as np
import popxl
from digits_data import load_digits
from popxl import ops
from popxl.ops import var_updates
from popxl.transforms import autodiff
from tensorflow.python import ipu

BATCH_SIZE = 16
TEST_BATCH_SIZE = 90
SIZES = (64, 128, 128, 10)
RATE = 0.2


def initial_weights() -> list[np.ndarray]:
    """Returns the weights and biases of all layers."""
    generator = np.random.default_rng(0)
    weights = []
    for size, after in zip(SIZES, SIZES[1:]):
        scale = np.sqrt(2 / size)
        weights += [generator.normal(0, scale, (size, after)), np.zeros(after)]
    return [weight.astype(np.float32) for weight in weights]


def network(images: popxl.Tensor, weights: list[popxl.Tensor]) -> popxl.Tensor:
    """Returns logits of images."""
    x = images.reshape((-1, SIZES[0]))
    for weight, bias in zip(weights[:-2:2], weights[1:-2:2]):
        x = ops.relu(x @ weight + bias)
    return x @ weights[-2] + weights[-1]


class Training:
    """The program that trains: a run is an epoch."""

    def __init__(self, weights: list[np.ndarray], batches: int) -> None:
        ir = popxl.Ir()
        ir.num_host_transfers = batches
        with ir.main_graph, popxl.in_sequence():
            self.images = popxl.h2d_stream((BATCH_SIZE, 8, 8), popxl.float32, "images")
            self.labels = popxl.h2d_stream((BATCH_SIZE,), popxl.int32, "labels")
            self.losses = popxl.d2h_stream((), popxl.float32, "loss")
            self.weights = [popxl.variable(weight) for weight in weights]
            self.forward = ir.create_graph(network, self.images.spec, self.weights)
            # The images need no gradient.
            self.backward = autodiff(self.forward, grads_required=self.forward.inputs[1:])
            step = ir.create_graph(self.step, self.weights)
            ops.repeat(step, batches, self.weights)
        self.session = popxl.Session(ir, "ipu_hw")

    @popxl.in_sequence()
    def step(self, weights: list[popxl.TensorByRef]) -> None:
        """Takes a batch, and updates the weights."""
        images, labels = ops.host_load(self.images), ops.host_load(self.labels)
        call = ops.call_with_info(self.forward, images, *weights)
        probs = ops.softmax(call.outputs[0], axis=-1)
        loss, slope = ops.nll_loss_with_softmax_grad(probs, labels)
        ops.host_store(self.losses, loss)
        inputs = self.backward.inputs_dict(call)
        gradients = ops.call(self.backward.graph, slope, inputs_dict=inputs)
        for weight, gradient in zip(weights, gradients):
            var_updates.accumulate_(weight, gradient, -RATE)

    def run(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Trains for an epoch; returns the mean loss."""
        data = {
            self.images: images.reshape(-1, BATCH_SIZE, 8, 8),
            self.labels: labels.reshape(-1, BATCH_SIZE),
        }
        return float(np.mean(self.session.run(data)[self.losses]))


def predict(weights: list[np.ndarray], images: np.ndarray) -> np.ndarray:
    """Returns the classes of images, from a program of its own."""
    ir = popxl.Ir()
    ir.num_host_transfers = len(images) // TEST_BATCH_SIZE
    with ir.main_graph:
        stream = popxl.h2d_stream((TEST_BATCH_SIZE, 8, 8), popxl.float32, "images")
        result = popxl.d2h_stream((TEST_BATCH_SIZE, SIZES[-1]), popxl.float32, "logits")

        def batch(weights: list[popxl.Tensor]) -> None:
            ops.host_store(result, network(ops.host_load(stream), weights))

        variables = [popxl.variable(weight) for weight in weights]
        ops.repeat(ir.create_graph(batch, variables), ir.num_host_transfers, variables)
    with popxl.Session(ir, "ipu_hw") as session:
        logits = session.run({stream: images.reshape(-1, TEST_BATCH_SIZE, 8, 8)})[result]
    return np.argmax(logits, axis=-1).flatten()


def main() -> None:
    """Trains, tests with the trained weights, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()

    (train_x, train_y), (test_x, test_y) = load_digits()
    images, labels = train_x[..., 0], train_y
    batches = len(images) // BATCH_SIZE
    training = Training(initial_weights(), batches)
    order = np.random.default_rng(0)
    with ipu.profiler.profile(), training.session as session:
        for epoch in range(arguments.epochs):
            chosen = order.permutation(len(images))[: batches * BATCH_SIZE]
            loss = training.run(images[chosen], labels[chosen])
            print(f"epoch {epoch + 1}/{arguments.epochs}: loss {loss:.4f}")
        values = session.get_tensors_data(training.weights)
        summary = ipu.profiler.summary()
    right = predict([values[weight] for weight in training.weights], test_x[..., 0]) == test_y
    print(f"test accuracy: {np.mean(right):.2%}\n")
    print(summary)


if __name__ == "__main__":
    main()
