"""Trains a network on real digits with PopXL in phases: the chip holds one layer at a time.

Weights, Adam's state and activations are in remote buffers. A phase loads the weights of a layer,
passes all batches of an update through it, and stores what the next phase needs: so only the
largest layer has to fit on the chip, and not the network.

* `python examples/popxl_phases.py` has 4 hidden layers; `--layers 12` takes no more of the chip.
* `--steps 8` passes 8 batches through each layer before the next one is loaded.

`examples/popxl_addons_digits.py` trains with all layers on the chip. docs/popxl.md explains the
parts.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import popxl
import popxl_addons as addons
from digits_data import load_digits
from popxl import ops
from popxl_addons import NamedTensors, RemoteHandle
from popxl_addons.layers import Linear
from popxl_addons.optimizers import AdamOptimizerStep
from tensorflow.python import ipu

BATCH_SIZE = 8
TEST_BATCH_SIZE = 90
HIDDEN = 128
RATE = 2e-3


class Hidden(addons.Module):
    """A layer with a shortcut past it, if input and output have one size."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear(HIDDEN)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the next activations."""
        y = ops.gelu(self.linear(x))
        return x + y if x.shape == y.shape else y


class Head(addons.Module):
    """The last layer with the loss and its gradient, which need each other at once."""

    def build(self, x: popxl.Tensor, labels: popxl.Tensor) -> tuple[popxl.Tensor, popxl.Tensor]:
        """Returns the loss, and the gradient of the activations."""
        factories, linear = Linear(10).create_graph(x)
        accumulators, backward = addons.autodiff_with_accumulation(
            linear, linear.args.tensors, grads_required=[linear.graph.inputs[0]]
        )
        weights = self.add_variable_inputs("linear", factories)
        means = self.add_variable_inputs("means", accumulators)
        call = linear.bind(weights).call_with_info(x)
        loss, slope = addons.ops.cross_entropy_with_grad(call.outputs[0], labels)
        activations = backward.grad_graph_info.inputs_dict(call)
        (gradient,) = backward.bind(means).call(slope, args=activations)
        return loss, gradient


class Between(NamedTuple):
    """Activations between two layers, and their gradient, for each batch.

    Attributes:
        values: where the values are.
        slopes: where their gradients are.
    """

    values: RemoteHandle
    slopes: RemoteHandle


class RemoteState:
    """Weights of layers of one kind and Adam's state, each layer's in a row of remote buffers."""

    def __init__(self, name: str, factories: addons.NamedVariableFactories, rows: int) -> None:
        """Makes the buffers, and graphs that load, update and store a row."""
        optimizer = AdamOptimizerStep(cache=True)  # one graph for all variables of a shape
        self.factories = addons.NamedVariableFactories(weights=factories)
        self.updates = {}
        for key, factory in factories.to_dict().items():
            spec = popxl.TensorSpec(factory.shape, factory.dtype)
            moments, self.updates[key] = optimizer.create_graph(
                spec, spec, lr=RATE, weight_decay=0.01, first_order_dtype=popxl.float32
            )
            self.factories.insert(f"moments.{key}", moments, overwrite=True)
        self.buffers = addons.named_variable_buffers(self.factories, rows, False)
        self.variables = [
            self.factories.init_remote(self.buffers, row, f"{name}.{row}") for row in range(rows)
        ]
        self.load_graph, self.names = addons.load_remote_graph(self.buffers, rows)
        self.store_graph = addons.store_remote_graph(self.buffers, rows)

    def load(self, row: int) -> NamedTensors:
        """Loads weights and state of a layer."""
        return NamedTensors.pack(self.names, self.load_graph.call(row))

    def update(self, row: int, state: NamedTensors, gradients: NamedTensors) -> None:
        """Takes a step of Adam, and stores the layer."""
        for key, weight in state.weights.to_dict().items():
            step = self.updates[key].bind(state.moments[key])
            step.call(weight, gradients[key])
        self.store_graph.bind(state).call(row)


class Phases:
    """Layers of one kind as phases: forward, and backward with the update."""

    def __init__(
        self,
        name: str,
        spec: popxl.TensorSpec,
        rows: int,
        steps: int,
        before: popxl.HostToDeviceStream | Between,
        after: Between,
    ) -> None:
        """Makes the loops over batches.

        Args:
            name: what the variables are called.
            spec: shape and type of what goes into a layer.
            rows: how many layers there are.
            steps: how many batches pass through a layer.
            before: where what goes into a layer comes from.
            after: where what it makes of it goes to.
        """
        factories, forward = Hidden().create_graph(spec)
        x, y = forward.graph.inputs[0], forward.graph.outputs[0]
        is_first = not isinstance(before, Between)  # images need no gradient
        accumulators, backward = addons.autodiff_with_accumulation(
            forward, forward.args.tensors, grads_required=None if is_first else [x]
        )
        slopes = {} if is_first else {backward.graph.outputs[0]: before.slopes}
        self.forward, self.backward = addons.batch_serialise_fwd_and_grad(
            forward,
            backward,
            forward.args,
            steps,
            load_handles={
                x: before if is_first else before.values,
                backward.graph.inputs[0]: after.slopes,
            },
            store_streams={},
            store_buffers={y: after.values, **slopes},
            rows=rows,
        )
        self.accumulators = accumulators
        self.remote = RemoteState(name, factories, rows)

    def run_forward(self, row: int) -> None:
        """Passes all batches through a layer."""
        weights = self.remote.load(row).weights
        self.forward.graph.bind(weights).call(row)

    def run_backward(self, row: int) -> None:
        """Passes all gradients back through a layer, and updates it."""
        state, means = self.remote.load(row), self.accumulators.init_zero()
        self.backward.graph.bind(state.weights).bind(
            self.backward.graph.args.to_mapping(means)
        ).call(row)
        self.remote.update(row, state, means.accum)


class Training:
    """The program that trains: a run is one update of all layers."""

    def __init__(self, layers: int, steps: int) -> None:
        ir = popxl.Ir()
        ir.num_host_transfers = steps
        self.steps = steps
        with ir.main_graph, popxl.in_sequence():
            self.images = popxl.h2d_stream((BATCH_SIZE, 64), popxl.float32, "images")
            self.labels = popxl.h2d_stream((BATCH_SIZE,), popxl.int32, "labels")
            self.losses = popxl.d2h_stream((), popxl.float32, "loss")
            spec = popxl.TensorSpec((BATCH_SIZE, HIDDEN), popxl.float32)
            rows, slopes = (addons.batch_serial_buffer(spec, steps, layers + 1) for _ in range(2))

            def between(row: int) -> Between:
                """Returns the buffers of hidden layer `row`'s input and its gradient."""
                return Between(RemoteHandle(rows, row), RemoteHandle(slopes, row))

            entry = Phases("entry", self.images.spec, 1, steps, self.images, between(0))
            hidden = Phases("hidden", spec, layers, steps, between(0), between(1))
            entry.run_forward(0)
            for row in range(layers):
                hidden.run_forward(row)
            head = self.head(spec, between(layers))
            for row in reversed(range(layers)):
                hidden.run_backward(row)
            entry.run_backward(0)
        self.variables = [*entry.remote.variables, *hidden.remote.variables, *head.variables]
        self.session = popxl.Session(ir, "ipu_hw")

    def head(self, spec: popxl.TensorSpec, before: Between) -> RemoteState:
        """Passes all batches through the last layer and back, and updates it."""
        factories, graph = Head().create_graph(spec, self.labels.spec)
        x, labels = graph.graph.inputs[:2]
        loss, gradient = graph.graph.outputs
        remote = RemoteState("head", factories.linear, 1)
        loop = addons.batch_serialise(
            graph,
            self.steps,
            {x: before.values, labels: self.labels},
            {loss: self.losses},
            {gradient: before.slopes},
        )
        state, means = remote.load(0), factories.means.init_zero()
        loop.graph.bind(NamedTensors(linear=state.weights, means=means)).call(0)
        remote.update(0, state, means.accum)
        return remote

    def run(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Updates all layers; returns the mean loss."""
        lead = (self.steps,) if self.steps > 1 else ()
        data = {
            self.images: images.reshape(*lead, BATCH_SIZE, 64),
            self.labels: labels.reshape(*lead, BATCH_SIZE),
        }
        return float(np.mean(self.session.run(data)[self.losses]))


def predict(training: Training, images: np.ndarray) -> np.ndarray:
    """Returns the classes of images, from a program with all layers on the chip."""
    values = training.session.get_tensors_data(
        [tensor for layer in training.variables for tensor in layer.weights.tensors]
    )
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream((TEST_BATCH_SIZE, 64), popxl.float32, "images")
        x = ops.host_load(stream)
        for layer in training.variables:
            is_head = layer is training.variables[-1]
            _, graph = (Linear(10) if is_head else Hidden()).create_graph(x)
            (x,) = graph.bind(layer.weights.map(lambda t: popxl.variable(values[t]))).call(x)
        logits = addons.ops.host_store(x)
    with popxl.Session(ir, "ipu_hw") as session:
        found = [
            session.run({stream: batch})[logits]
            for batch in images.reshape(-1, TEST_BATCH_SIZE, 64)
        ]
    return np.argmax(np.concatenate(found), axis=1)


def main() -> None:
    """Trains, tests with the trained weights, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--layers", type=int, default=4, help="hidden layers")
    parser.add_argument("--steps", type=int, default=4, help="batches for one update")
    arguments = parser.parse_args()

    np.random.seed(0)  # the initial weights
    (train_x, train_y), (test_x, test_y) = load_digits()
    mean, deviation = train_x.mean(), train_x.std()
    train_x, test_x = (train_x - mean) / deviation, (test_x - mean) / deviation
    training = Training(arguments.layers, arguments.steps)
    size, order = BATCH_SIZE * arguments.steps, np.random.default_rng(0)
    with ipu.profiler.profile(), training.session:
        for epoch in range(arguments.epochs):
            chosen = order.permutation(len(train_x))[: len(train_x) // size * size]
            losses = [training.run(train_x[i], train_y[i]) for i in chosen.reshape(-1, size)]
            print(f"epoch {epoch + 1}/{arguments.epochs}: loss {np.mean(losses):.4f}")
        summary = ipu.profiler.summary()
    right = predict(training, test_x) == test_y
    print(f"test accuracy: {np.mean(right):.2%}\n")
    print(summary)


if __name__ == "__main__":
    main()
