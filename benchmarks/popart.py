"""Times PopART's sessions against the same models as a plain `tf.function`, in one process.

* training: a step of a small CNN, batch 16, and of a wider one, batch 64,
* inference: a batch of a ResNet-50, read from ONNX, against the same layers in Keras's layout of
  TensorFlow (`--resnet`; it takes a minute),
* run: what one `session.run` of an empty model takes, in microseconds.

Printed are milliseconds of a step and the ratio to plain TensorFlow, of medians; the contenders
take turns. The goal is a ratio of at most 1.1 for steps of 10 ms and more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import popart
import tensorflow as tf

STEPS = 20


class Network:
    """A CNN of 3x3 convolutions with relu, a mean over pixels and a dense layer."""

    def __init__(self, channels: tuple[int, ...], size: int, batch: int) -> None:
        generator = np.random.default_rng(0)
        self.size, self.batch, self.channels = size, batch, channels
        self.weights = [
            generator.normal(0, np.sqrt(2 / (9 * c)), (d, c, 3, 3)).astype(np.float32)
            for c, d in zip(channels, channels[1:])
        ]
        self.dense = generator.normal(0, 0.1, (10, channels[-1])).astype(np.float32)
        shape = (STEPS, batch, channels[0], size, size)
        self.images = generator.normal(size=shape).astype(np.float32)
        self.labels = generator.integers(0, 10, (STEPS, batch)).astype(np.int32)

    def popart(self, device: popart.DeviceInfo) -> Callable[[], object]:
        """Returns a function that trains N steps with PopART."""
        builder = popart.Builder()
        shape = [self.batch, self.channels[0], self.size, self.size]
        x, labels = (
            builder.addInputTensor("FLOAT", shape, "x"),
            builder.addInputTensor("INT32", [self.batch], "labels"),
        )
        y = x
        for weight in self.weights:
            kernel = builder.addInitializedInputTensor(weight)
            y = builder.aiOnnx.conv([y, kernel], strides=[1, 1], pads=[1, 1, 1, 1])
            y = builder.aiOnnx.relu([y])
        y = builder.aiOnnx.reducemean([y], [2, 3], 0)
        dense = builder.addInitializedInputTensor(np.ascontiguousarray(self.dense.T))
        logits = builder.aiOnnx.matmul([y, dense])
        loss = builder.aiGraphcore.nllloss([builder.aiOnnx.softmax([logits]), labels])
        session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(STEPS, {loss: popart.AnchorReturnType("Final")}),
            loss,
            popart.ConstSGD(0.01),
            device,
        )
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        stepio = popart.PyStepIO({x: self.images, labels: self.labels}, anchors)
        return lambda: session.run(stepio)

    def plain(self) -> Callable[[], object]:
        """Returns a function that trains the same steps with TensorFlow alone, channels last."""
        kernels = [tf.Variable(np.transpose(weight, (2, 3, 1, 0))) for weight in self.weights]
        dense = tf.Variable(self.dense.T)
        images = tf.constant(np.moveaxis(self.images, 2, -1))
        labels = tf.constant(self.labels)

        @tf.function
        def train() -> tf.Tensor:
            loss = 0.0
            for i in tf.range(STEPS):
                with tf.GradientTape() as tape:
                    y = images[i]
                    for kernel in kernels:
                        y = tf.nn.relu(tf.nn.conv2d(y, kernel, 1, "SAME"))
                    logits = tf.reduce_mean(y, [1, 2]) @ dense
                    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[i], logits)
                    loss = tf.reduce_mean(losses)
                variables = [*kernels, dense]
                for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                    variable.assign_sub(0.01 * gradient)
            return loss

        return train


def compare(name: str, contenders: dict[str, Callable[[], object]], rounds: int, per: int) -> None:
    """Prints the line of a case: medians of contenders that take turns."""
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    for number in range(rounds + 1):
        for contender, run in contenders.items():
            start = time.perf_counter()
            run()
            if number:  # the first one compiles
                times[contender].append((time.perf_counter() - start) / per * 1e3)
    medians = {contender: statistics.median(times[contender]) for contender in contenders}
    said = ", ".join(f"{contender} {value:.3f} ms" for contender, value in medians.items())
    print(f"{name}: {said}; popart/plain {medians['popart'] / medians['plain']:.3f}")


def resnet(device: popart.DeviceInfo, batch: int) -> dict[str, Callable[[], object]]:
    """Returns inference of ResNet-50 through ONNX, and with TensorFlow alone."""
    layers, shape = (3, 4, 6, 3), [batch, 3, 224, 224]
    generator = np.random.default_rng(0)
    builder = popart.Builder()
    kernels: list[np.ndarray] = []

    def convolution(y: str, before: int, after: int, size: int, stride: int) -> str:
        weight = generator.normal(0, np.sqrt(2 / (before * size**2)), (after, before, size, size))
        kernels.append(weight.astype(np.float32))
        pads = [size // 2] * 4
        kernel = builder.addInitializedInputTensor(kernels[-1])
        return str(builder.aiOnnx.conv([y, kernel], strides=[stride, stride], pads=pads))

    y = x = builder.addInputTensor("FLOAT", shape, "x")
    y = builder.aiOnnx.relu([convolution(y, 3, 64, 7, 2)])
    y = builder.aiOnnx.maxpool([y], 1, [2, 2], strides=[2, 2])[0]
    before = 64
    for stage, count in enumerate(layers):
        width = 64 * 2**stage
        for number in range(count):
            stride = 2 if stage and not number else 1
            short = y if number else convolution(y, before, 4 * width, 1, stride)
            y = builder.aiOnnx.relu([convolution(y, before, width, 1, 1)])
            y = builder.aiOnnx.relu([convolution(y, width, width, 3, stride)])
            y = convolution(y, width, 4 * width, 1, 1)
            y = builder.aiOnnx.relu([builder.aiOnnx.add([y, short])])
            before = 4 * width
    y = builder.aiOnnx.reducemean([y], [2, 3], 0)
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    images = generator.normal(size=shape).astype(np.float32)
    stepio = popart.PyStepIO({x: images}, anchors)
    return {"plain": _plain_resnet(kernels, layers, images), "popart": lambda: session.run(stepio)}


def _plain_resnet(
    kernels: list[np.ndarray], layers: tuple[int, ...], images: np.ndarray
) -> Callable[[], object]:
    """Returns the same network in TensorFlow, channels last."""
    given = [tf.constant(np.transpose(kernel, (2, 3, 1, 0))) for kernel in kernels]
    data = tf.constant(np.moveaxis(images, 1, -1))

    def convolved(y: tf.Tensor, kernel: tf.Tensor, stride: int) -> tf.Tensor:
        pad = kernel.shape[0] // 2
        padding = [[0, 0], [pad, pad], [pad, pad], [0, 0]] if pad else "VALID"
        return tf.nn.conv2d(y, kernel, stride, padding)

    @tf.function
    def run() -> tf.Tensor:
        rest = iter(given)
        y = tf.nn.relu(convolved(data, next(rest), 2))
        y = tf.nn.max_pool2d(y, 2, 2, "VALID")
        for stage, count in enumerate(layers):
            for number in range(count):
                stride = 2 if stage and not number else 1
                short = y if number else convolved(y, next(rest), stride)
                y = tf.nn.relu(convolved(y, next(rest), 1))
                y = tf.nn.relu(convolved(y, next(rest), stride))
                y = tf.nn.relu(convolved(y, next(rest), 1) + short)
        return tf.reduce_mean(y, [1, 2])

    return lambda: run().numpy()


def overhead(device: popart.DeviceInfo, rounds: int) -> None:
    """Prints the time of one `run` of an empty model."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4], "x")
    y = builder.aiOnnx.relu([x])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    stepio = popart.PyStepIO({x: np.ones(4, np.float32)}, session.initAnchorArrays())
    times = []
    for _ in range(50 * rounds):
        start = time.perf_counter()
        session.run(stepio)
        times.append((time.perf_counter() - start) * 1e6)
    print(f"run of an empty model: {statistics.median(times):.0f} us")


def main() -> None:
    """Measures all cases and prints a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--resnet", action="store_true")
    arguments = parser.parse_args()
    with popart.DeviceManager().acquireAvailableDevice(1) as device:
        for name, network in (
            ("training, batch 16", Network((1, 16, 32), 8, 16)),
            ("training, batch 64", Network((3, 32, 64, 64), 16, 64)),
        ):
            contenders = {"plain": network.plain(), "popart": network.popart(device)}
            compare(name, contenders, arguments.rounds, STEPS)
        overhead(device, arguments.rounds)
        if arguments.resnet:
            compare("ResNet-50, batch 4", resnet(device, 4), arguments.rounds, 1)


if __name__ == "__main__":
    main()
