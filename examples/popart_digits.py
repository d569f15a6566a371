"""Trains a small CNN on real digits with PopART on simulated IPUs, and tests it as an ONNX file.

`python examples/popart_digits.py` builds the network op by op, trains it on one IPU or on several
(`--replicas 2`), writes an ONNX file of the trained weights, and runs that file twice: in an
`InferenceSession`, and with the reference evaluator of the package `onnx`. docs/popart.md explains
the parts.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import popart
from digits_data import load_digits
from onnx import reference

BATCH_SIZE = 16
CLASSES = 10
# Channels of the convolutions, and the size of the image after both.
CHANNELS = (1, 16, 32)
PIXELS = 2 * 2
RATE = 0.05


def weight(builder: popart.Builder, shape: list[int], name: str) -> str:
    """Adds a weight with random values for layers with relu; biases start as zeros."""
    fan_in = int(np.prod(shape[1:]))
    generator = np.random.default_rng(sum(shape))
    values = generator.normal(0, np.sqrt(2 / fan_in), shape) if len(shape) > 1 else np.zeros(shape)
    return builder.addInitializedInputTensor(values.astype(np.float32), name)


def convolution(builder: popart.Builder, x: str, before: int, after: int) -> str:
    """Adds a convolution, relu and a maximum over windows of two by two pixels."""
    with builder.nameScope(f"conv{after}"):
        kernel = weight(builder, [after, before, 3, 3], "kernel")
        bias = weight(builder, [after], "bias")
        y = builder.aiOnnx.conv([x, kernel, bias], strides=[1, 1], pads=[1, 1, 1, 1])
        y = builder.aiOnnx.relu([y])
        return str(builder.aiOnnx.maxpool([y], 1, [2, 2], strides=[2, 2])[0])


def network(batch: int) -> tuple[bytes, str, str]:
    """Returns the model, its probabilities and its loss.

    Args:
        batch: images of a micro-batch.
    """
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [batch, 1, 8, 8], "images")
    labels = builder.addInputTensor("INT32", [batch], "labels")
    y = x
    for before, after in zip(CHANNELS, CHANNELS[1:]):
        y = convolution(builder, y, before, after)
    y = builder.reshape_const(builder.aiOnnx, [y], [batch, CHANNELS[-1] * PIXELS])
    kernel = weight(builder, [CLASSES, CHANNELS[-1] * PIXELS], "dense")
    logits = builder.aiOnnx.gemm([y, kernel, weight(builder, [CLASSES], "bias")], transB=1)
    probs = builder.aiOnnx.softmax([logits])
    loss = builder.aiGraphcore.nllloss([probs, labels])
    builder.addOutputTensor(probs)
    return builder.getModelProto(), probs, loss


def train(arguments: argparse.Namespace, path: Path) -> str:
    """Trains the network and writes it to a file; returns the summary of the run on the chip."""
    (images, labels), _ = load_digits()
    model, _, loss = network(BATCH_SIZE)
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = arguments.replicas > 1
    options.replicatedGraphCount = arguments.replicas
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    of_step = BATCH_SIZE * arguments.replicas
    batches = len(images) // of_step
    optimizer = popart.SGD({"defaultLearningRate": (RATE, False), "defaultMomentum": (0.9, True)})
    with popart.DeviceManager().acquireAvailableDevice(arguments.replicas) as device:
        session = popart.TrainingSession(
            model,
            popart.DataFlow(batches, {loss: popart.AnchorReturnType("All")}),
            loss,
            optimizer,
            device,
            userOptions=options,
        )
        session.prepareDevice()
        session.weightsFromHost()
        losses = session.initAnchorArrays()
        order = np.random.default_rng(0)
        for epoch in range(arguments.epochs):
            chosen = order.permutation(len(images))[: batches * of_step]
            data = {
                "images": np.ascontiguousarray(images[chosen, ..., 0]),
                "labels": labels[chosen],
            }
            session.run(popart.PyStepIO(data, losses))
            print(f"epoch {epoch + 1}/{arguments.epochs}: loss {losses[loss].mean():.4f}")
        session.modelToHost(str(path))
        return str(session.getSummaryReport())


def predict(path: Path, images: np.ndarray) -> np.ndarray:
    """Returns the probabilities that a session computes with the weights of a file."""
    model, probs, _ = network(len(images))
    trained = popart.GraphTransformer(str(path)).getModelProto()
    options = popart.SessionOptions()
    options.constantWeights = False
    with popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 1216}) as device:
        session = popart.InferenceSession(
            model, popart.DataFlow(1, [probs]), device, userOptions=options
        )
        session.prepareDevice()
        # The file has the momentum of the training, too.
        session.resetHostWeights(trained, True)
        session.weightsFromHost()
        results = session.initAnchorArrays()
        session.run(popart.PyStepIO({"images": images}, results))
    return results[probs]


def evaluate(path: Path, images: np.ndarray) -> np.ndarray:
    """Returns the probabilities that ONNX's own evaluator computes of a file, image by image."""
    model = onnx.load(path)
    kept = [node for node in model.graph.node if node.domain != "ai.graphcore"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    for node in model.graph.node:  # PopART's own attributes, which ONNX's evaluator refuses
        known = [attribute for attribute in node.attribute if not attribute.name.startswith("__")]
        del node.attribute[:]
        node.attribute.extend(known)
    del model.opset_import[:]
    model.opset_import.add(domain="", version=10)
    evaluator = reference.ReferenceEvaluator(model)
    labels = np.zeros(BATCH_SIZE, np.int32)
    parts = [
        evaluator.run(None, {"images": images[start : start + BATCH_SIZE], "labels": labels})[0]
        for start in range(0, len(images) - BATCH_SIZE + 1, BATCH_SIZE)
    ]
    return np.concatenate(parts)


def main() -> None:
    """Trains, tests the trained file, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--replicas", type=int, default=1)
    arguments = parser.parse_args()
    _, (test_x, labels) = load_digits()
    images = np.ascontiguousarray(np.moveaxis(test_x, -1, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"
        summary = train(arguments, path)
        found, expected = predict(path, images), evaluate(path, images)
    accuracy = np.mean(found.argmax(1) == labels)
    difference = np.abs(found[: len(expected)] - expected).max()
    print(f"test accuracy: {accuracy:.2%}")
    print(f"largest difference to ONNX's own evaluator: {difference:.1e}\n")
    print(summary)


if __name__ == "__main__":
    main()
