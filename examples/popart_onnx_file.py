"""Runs an ONNX file on a simulated IPU, trains it further there, and checks the result.

`python examples/popart_onnx_file.py` writes a file as an exporter of another framework would, with
the package `onnx` alone: a network of dense layers for images of digits. It runs the file, says
what that needs on the chip, adds a loss to it, trains it, and writes the trained model to a file,
which the reference evaluator of `onnx` runs, too. `--file` takes a file that is there already and
only runs it, with random inputs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import popart
from digits_data import load_digits
from onnx import helper, numpy_helper, reference
from tensorflow.python import ipu

BATCH = 32
OPSET = 11
WIDTHS = (64, 48, 10)
RATE = 0.1


def write_file(path: Path) -> None:
    """Writes a network with random weights: dense layers, relu between them, and softmax."""
    generator = np.random.default_rng(0)
    nodes, weights, x = [], [], "images"
    for layer, (rows, columns) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        kernel = generator.normal(0, np.sqrt(2 / rows), (rows, columns)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"kernel{layer}"))
        weights.append(numpy_helper.from_array(np.zeros(columns, np.float32), f"bias{layer}"))
        nodes.append(
            helper.make_node("Gemm", [x, weights[-2].name, weights[-1].name], [f"h{layer}"])
        )
        last = layer == len(WIDTHS) - 2
        x = "probabilities" if last else f"y{layer}"
        nodes.append(helper.make_node("Softmax" if last else "Relu", [f"h{layer}"], [x]))
    shapes = {"images": (BATCH, WIDTHS[0]), "probabilities": (BATCH, WIDTHS[-1])}
    (images, result) = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    graph = helper.make_graph(nodes, "digits", [images], [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=6)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def run_file(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of a file, and prints the run's memory and time on the chip."""
    outputs = [output.name for output in onnx.load(path).graph.output]
    with popart.DeviceManager().acquireAvailableDevice(1) as device, ipu.profiler.profile() as kept:
        session = popart.InferenceSession(str(path), popart.DataFlow(1, outputs), device)
        session.prepareDevice()
        results = session.initAnchorArrays()
        session.run(popart.PyStepIO(inputs, results))
    print(kept.reports[-1])
    return {name: results[name] for name in outputs}


def train_file(path: Path, trained: Path, epochs: int) -> None:
    """Adds a loss to a file, trains it on digits, and writes the trained model to another one."""
    (images, labels), _ = load_digits()
    builder = popart.Builder(str(path))
    classes = builder.addInputTensor("INT32", [BATCH], "labels")
    loss = builder.aiGraphcore.nllloss([builder.getOutputTensorIds()[0], classes])
    batches = len(images) // BATCH
    flow = popart.DataFlow(batches, {loss: popart.AnchorReturnType("All")})
    with popart.DeviceManager().acquireAvailableDevice(1) as device:
        optimizer = popart.ConstSGD(RATE)
        session = popart.TrainingSession(builder.getModelProto(), flow, loss, optimizer, device)
        session.prepareDevice()
        session.weightsFromHost()
        losses = session.initAnchorArrays()
        order = np.random.default_rng(1)
        for epoch in range(epochs):
            chosen = order.permutation(len(images))[: batches * BATCH]
            data = {"images": images[chosen].reshape(-1, WIDTHS[0]), "labels": labels[chosen]}
            session.run(popart.PyStepIO(data, losses))
            print(f"epoch {epoch + 1}/{epochs}: loss {losses[loss].mean():.4f}")
        session.modelToHost(str(trained))


def evaluate(path: Path, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the first output that ONNX's own evaluator computes of a file without its loss."""
    model = onnx.load(path)
    kept = [node for node in model.graph.node if node.domain != "ai.graphcore"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    evaluator = reference.ReferenceEvaluator(model)
    return np.asarray(evaluator.run([model.graph.output[0].name], inputs)[0])


def random_inputs(path: Path) -> dict[str, np.ndarray]:
    """Returns inputs of the shapes that a file says, for those without a value in it."""
    graph = onnx.load(path).graph
    known = {weight.name for weight in graph.initializer}
    found = {}
    for value in graph.input:
        if value.name not in known:
            type_ = value.type.tensor_type
            shape = [dimension.dim_value or 1 for dimension in type_.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(type_.elem_type)
            found[value.name] = np.random.default_rng(0).normal(size=shape).astype(dtype)
    return found


def main() -> None:
    """Runs a file; without one, trains one, too, and compares with ONNX's own evaluator."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()
    if arguments.file is not None:
        for name, array in run_file(arguments.file, random_inputs(arguments.file)).items():
            print(f"{name}: {array.dtype} {array.shape}, mean {array.mean():.4g}")
        return
    _, (images, labels) = load_digits()
    batch = {"images": images[:BATCH].reshape(BATCH, -1)}
    with tempfile.TemporaryDirectory() as folder:
        path, trained = Path(folder) / "digits.onnx", Path(folder) / "trained.onnx"
        write_file(path)
        (found,) = run_file(path, batch).values()
        difference = np.abs(found - evaluate(path, batch)).max()
        print(f"largest difference to ONNX's own evaluator: {difference:.1e}")
        train_file(path, trained, arguments.epochs)
        right = [
            evaluate(trained, {"images": part.reshape(BATCH, -1)}).argmax(1) == expected
            for part, expected in (
                (images[i : i + BATCH], labels[i : i + BATCH])
                for i in range(0, len(images) - BATCH + 1, BATCH)
            )
        ]
    print(f"test accuracy of the trained file, by ONNX's own evaluator: {np.mean(right):.2%}")


if __name__ == "__main__":
    main()
