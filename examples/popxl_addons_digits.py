"""Trains a network of PopXL modules on real digits on a simulated IPU, then tests it.

* `python examples/popxl_addons_digits.py` runs one batch at a time, as PopXL's tutorial does.
* `--accumulate 4` takes four batches for one update, and `--recompute` does not keep activations.
* `--outline` lets two layers share the code of one graph. They learn as before.

`examples/popxl_digits.py` does the same without modules. docs/popxl.md explains the parts.
"""

from __future__ import annotations

import argparse

import numpy as np
import popxl
import popxl_addons as addons
from digits_data import load_digits
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.layers import Linear
from popxl_addons.optimizers import AdamOptimizerStep
from tensorflow.python import ipu

BATCH_SIZE = 8
TEST_BATCH_SIZE = 90
HIDDEN = 256
RATE = 2e-3


class Net(addons.Module):
    """Four layers. Their code is in the graph four times."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = Linear(HIDDEN)
        self.fc2 = Linear(HIDDEN)
        self.fc3 = Linear(HIDDEN)
        self.fc4 = Linear(10)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns logits of images."""
        x = x.reshape((-1, 64))
        for layer in (self.fc1, self.fc2, self.fc3):
            x = ops.gelu(layer(x))
        return self.fc4(x)


class OutlinedNet(addons.Module):
    """The same. The two layers in the middle are calls of one graph, with weights of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = Linear(HIDDEN)
        self.fc4 = Linear(10)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns logits of images."""
        x = ops.gelu(self.fc1(x.reshape((-1, 64))))
        factories, graph = Linear(HIDDEN).create_graph(x)
        for name in ("fc2", "fc3"):
            layer = graph.bind(self.add_variable_inputs(name, factories))
            (x,) = layer.call(x)
            x = ops.gelu(x)
        return self.fc4(x)


def training_session(net: addons.Module, accumulate: int, recompute: bool) -> addons.TaskSession:
    """Makes the program that trains: a run is one update of the weights."""
    ir = popxl.Ir()
    ir.num_host_transfers = accumulate
    with ir.main_graph, popxl.in_sequence():
        inputs = addons.InputStreams(
            images=((BATCH_SIZE, 8, 8), popxl.float32), labels=((BATCH_SIZE,), popxl.int32)
        )
        outputs = addons.OutputStreams(loss=((), popxl.float32))
        factories, forward = net.create_graph(inputs.images.spec)
        # Gradients of one batch are the mean of one, so there is only one program.
        accumulators, backward = addons.autodiff_with_accumulation(forward, forward.args.tensors)
        if recompute:
            backward = addons.recompute_graph(backward)
        weights, state = factories.init(), accumulators.init()
        names = weights.unpack()[0]

        def batch(weight: list[popxl.Tensor], mean: list[popxl.TensorByRef]) -> None:
            """Adds the gradients of one batch to their means."""
            images, labels = ops.host_load(inputs.images), ops.host_load(inputs.labels)
            bound = forward.bind(addons.NamedTensors.pack(names, weight))
            call = bound.call_with_info(images)
            loss, slope = addons.ops.cross_entropy_with_grad(call.outputs[0], labels)
            ops.host_store(outputs.loss, loss)
            means = addons.NamedTensors.pack(state.unpack()[0], mean)
            activations = backward.grad_graph_info.inputs_dict(call)
            backward.bind(means).call(slope, args=activations)

        tensors = weights.unpack()[1], state.unpack()[1]
        graph = ir.create_graph(popxl.in_sequence()(batch), *map(list, tensors))
        ops.repeat(graph, accumulate, *map(list, tensors))
        optimizer = AdamOptimizerStep(cache=True)  # one graph for all variables of a shape
        for name, weight in weights.to_dict().items():
            gradient = state.accum[name]
            moments, step = optimizer.create_graph(weight, gradient, lr=RATE, weight_decay=0.01)
            step.bind(moments.init(prefix=name)).call(weight, gradient)
        var_updates.accumulator_zero_(state.mean_accum_counter)
    return addons.TaskSession(inputs, outputs, weights, ir=ir, device_desc="ipu_hw")


def test_session(net: addons.Module) -> addons.TaskSession:
    """Makes the program that returns logits of images."""
    ir = popxl.Ir()
    with ir.main_graph:
        inputs = addons.InputStreams(images=((TEST_BATCH_SIZE, 8, 8), popxl.float32))
        images = ops.host_load(inputs.images)
        factories, graph = net.create_graph(images)
        weights = factories.init()
        (logits,) = graph.bind(weights).call(images)
        outputs = addons.OutputStreams(logits=(logits.shape, logits.dtype))
        ops.host_store(outputs.logits, logits)
    return addons.TaskSession(inputs, outputs, weights, ir=ir, device_desc="ipu_hw")


def train(session: addons.TaskSession, images: np.ndarray, labels: np.ndarray, epochs: int) -> None:
    """Trains on shuffled batches; prints the mean loss of each epoch."""
    count = session.ir.num_host_transfers
    size = BATCH_SIZE * count
    order = np.random.default_rng(0)
    for epoch in range(epochs):
        losses = []
        for chosen in order.permutation(len(images))[: len(images) // size * size].reshape(
            -1, size
        ):
            lead = (count,) if count > 1 else ()
            data = {
                session.inputs.images: images[chosen].reshape(*lead, BATCH_SIZE, 8, 8),
                session.inputs.labels: labels[chosen].reshape(*lead, BATCH_SIZE),
            }
            losses.append(session.run(data)[session.outputs.loss])
        print(f"epoch {epoch + 1}/{epochs}: loss {np.mean(losses):.4f}")


def main() -> None:
    """Trains, tests the copied weights in a second program, and prints memory and time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--accumulate", type=int, default=1, help="batches for one update")
    parser.add_argument("--recompute", action="store_true", help="compute activations again")
    parser.add_argument("--outline", action="store_true", help="share code between layers")
    arguments = parser.parse_args()

    np.random.seed(0)  # the initial weights
    (train_x, train_y), (test_x, test_y) = load_digits()
    mean, deviation = train_x.mean(), train_x.std()
    train_x, test_x = (train_x - mean) / deviation, (test_x - mean) / deviation
    network = OutlinedNet if arguments.outline else Net
    training = training_session(network(), arguments.accumulate, arguments.recompute)
    with ipu.profiler.profile(), training:
        train(training, train_x[..., 0], train_y, arguments.epochs)
        summary = ipu.profiler.summary()

    testing = test_session(network())
    testing.load_from_session(training, report_missing="error")
    with testing:
        batches = test_x.reshape(-1, TEST_BATCH_SIZE, 8, 8)
        logits = [testing.run({testing.inputs.images: x})[testing.outputs.logits] for x in batches]
    right = np.argmax(np.concatenate(logits), axis=1) == test_y
    print(f"test accuracy: {np.mean(right):.2%}\n")
    print(summary)


if __name__ == "__main__":
    main()
