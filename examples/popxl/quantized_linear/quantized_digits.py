"""Trains layers around a frozen one, whose weight has 8 bits for each element, on real digits.

    pip install 'tensorflow_ipu[custom-ops]' scikit-learn
    cd examples/popxl/quantized_linear
    python quantized_digits.py

`quantized_linear.cpp` has the operation: it makes the weight from its codes with a codelet,
multiplies, and has a gradient for the layers before it. Adapters of large models are trained so.
`--replicas 2` trains on two copies of the chip, each with half of the images.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cppimport
import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl.context import get_current_context, op_debug_context
from popxl.ops.utils import check_in_graph
from popxl_addons.layers import Linear
from sklearn import datasets

quantized_linear_module = cppimport.imp_from_filepath(
    str(Path(__file__).with_name("quantized_linear.cpp"))
)

HIDDEN = 64
IMAGES = 1792
STEPS, RATE = 200, 1.0


@op_debug_context
def quantized_linear(x: popxl.Tensor, codes: popxl.Tensor, scales: popxl.Tensor) -> popxl.Tensor:
    """Adds the operation to the current graph.

    Args:
        x: `(rows, in)`, of a floating-point type.
        codes: the integers of the weight, int8 `(in, out)`.
        scales: the factors of its columns, `(out,)` of the type of x.
    """
    context = get_current_context()
    graph = context.graph
    check_in_graph(graph, x=x, codes=codes, scales=scales)
    op = quantized_linear_module.QuantizedLinear.create_op_in_graph(
        graph=graph._pb_graph,
        inputs={0: x.id, 1: codes.id, 2: scales.id},
        outputs={0: graph._create_tensor_id("quantized_linear_out")},
        params=quantized_linear_module.NoParams(),
        settings=context._get_op_settings("quantized_linear"),
    )
    context._op_created(op)
    return popxl.Tensor._from_pb_tensor(op.outTensor(0))


def quantize(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns codes, int8 like the weight, and scales, float32 for each column."""
    scales = np.abs(weight).max(0) / 127
    return np.round(weight / scales).astype(np.int8), scales.astype(np.float32)


class Net(addons.Module):
    """A network whose middle layer is frozen."""

    def __init__(self, weight: np.ndarray) -> None:
        """Takes the weight of the frozen layer."""
        super().__init__()
        self.first, self.last = Linear(HIDDEN), Linear(10)
        self.codes, self.scales = quantize(weight)

    def build(self, images: popxl.Tensor) -> popxl.Tensor:
        """Returns logits of images `(rows, 64)`."""
        codes = self.add_variable_input("codes", lambda: self.codes, popxl.int8)
        scales = self.add_variable_input("scales", lambda: self.scales, popxl.float32)
        x = ops.gelu(self.first(images))
        return self.last(ops.gelu(quantized_linear(x, codes, scales)))


class Training:
    """The program that takes one step on all images."""

    def __init__(self, net: Net, replicas: int) -> None:
        """Makes the program.

        Args:
            net: the network.
            replicas: the number of replicas, which share the images.
        """
        rows = IMAGES // replicas
        ir = popxl.Ir(replicas)
        with ir.main_graph, popxl.in_sequence():
            self.images = popxl.h2d_stream((rows, 64), popxl.float32)
            self.labels = popxl.h2d_stream((rows,), popxl.int32)
            self.logits = popxl.d2h_stream((rows, 10), popxl.float32)
            factories, forward = net.create_graph(self.images.spec)
            weights = factories.init().to_dict()
            trained = {name: weight for name, weight in weights.items() if "." in name}
            inputs = forward.args.to_dict()
            gradients = addons.autodiff(forward, grads_required=[inputs[name] for name in trained])
            call = forward.bind(addons.NamedTensors.from_dict(weights)).call_with_info(
                ops.host_load(self.images)
            )
            _, slope = addons.ops.cross_entropy_with_grad(
                call.outputs[0], ops.host_load(self.labels)
            )
            ops.host_store(self.logits, call.outputs[0])
            found = gradients.call(slope, args=gradients.grad_graph_info.inputs_dict(call))
            for weight, gradient in zip(trained.values(), found):
                mean = ops.collectives.replicated_all_reduce(gradient, "mean")
                ops.var_updates.accumulate_(weight, mean, -RATE)
        self.weights = weights
        self.session = popxl.Session(ir, "ipu_hw")

    def step(self, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Takes a step; returns the logits before it."""
        replicas = self.session.ir.replication_factor
        lead = (replicas,) if replicas > 1 else ()
        data = {
            self.images: images.reshape(*lead, -1, 64),
            self.labels: labels.reshape(*lead, -1),
        }
        logits: np.ndarray = self.session.run(data)[self.logits]
        return logits.reshape(-1, 10)


def gelu(x: np.ndarray) -> np.ndarray:
    """Returns NumPy's result of `ops.gelu`."""
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def main() -> None:
    """Trains, and compares logits with NumPy's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, default=1)
    arguments = parser.parse_args()

    np.random.seed(0)  # the initial weights
    digits = datasets.load_digits()
    images = (digits.data[:IMAGES] / 16).astype(np.float32)
    labels = digits.target[:IMAGES].astype(np.int32)
    net = Net(np.random.normal(0, HIDDEN**-0.5, (HIDDEN, HIDDEN)))
    training = Training(net, arguments.replicas)
    with training.session as session:
        for step in range(STEPS):
            logits = training.step(images, labels)
            if (step + 1) % 50 == 0:
                accuracy = np.mean(logits.argmax(1) == labels)
                print(f"step {step + 1}/{STEPS}: {accuracy:.1%} of the images are right")
        variables = {n: t for n, t in training.weights.items() if isinstance(t, popxl.Variable)}
        w = {name: session.get_tensor_data(t).copy() for name, t in variables.items()}
        logits = training.step(images, labels)
    hidden = gelu(images @ w["first.weight"] + w["first.bias"])
    hidden = gelu(hidden @ (w["codes"] * w["scales"]))
    expected = hidden @ w["last.weight"] + w["last.bias"]
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-3)
    print("logits are those of NumPy")


if __name__ == "__main__":
    main()
