"""Operations of one's own in a program, and their gradients, compared with TensorFlow's."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

FOLDER = Path(__file__).parent
SIZE = 1024


def build(folder: Path) -> None:
    """Compiles the libraries into a folder."""
    include = ipu.custom_ops.include_dir()
    command = ["make", "--no-print-directory", "-C", str(FOLDER)]
    subprocess.run([*command, f"OUT={folder}", f"INCLUDE={include}"], check=True)


def with_custom_ops(x: tf.Tensor, weight: tf.Tensor, folder: Path) -> tf.Tensor:
    """Returns 3 * weight * x^2 - x, each operation by another kind of custom operation."""
    outs = {"output_types": [x.dtype], "output_shapes": [x.shape]}
    (square,) = ipu.custom_ops.precompiled_user_op(
        [x, weight], folder / "libweighted_square.so", outs=outs, op_name="WeightedSquare"
    )
    (scaled,) = ipu.custom_ops.cpu_user_operation(
        [square],
        folder / "libscale.so",
        outs=outs,
        op_name="Scale",
        attributes="3",
        gradient_attributes="3",
    )
    return scaled - x


def with_tensorflow(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Returns the same."""
    return 3 * weight * x * x - x


def with_gradients(
    function: Callable[..., tf.Tensor], x: tf.Tensor, weight: tf.Tensor
) -> list[tf.Tensor]:
    """Returns the value of a function and its gradients."""
    with tf.GradientTape() as tape:
        tape.watch([x, weight])
        y = function(x, weight)
    return [y, *tape.gradient(y, [x, weight])]


def main(folder: Path) -> None:
    """Builds, runs, compares.

    Args:
        folder: For the libraries.
    """
    build(folder)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    generator = np.random.default_rng(1)
    x, weight = generator.normal(size=(2, SIZE)).astype(np.float32)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(x, weight):
            return with_gradients(lambda x, w: with_custom_ops(x, w, folder), x, weight)

        @tf.function(jit_compile=True)
        def expression(x, weight):  # no gradient, but no library either
            return ipu.custom_ops.codelet_expression_op(
                lambda x, w: ipu.vertex_edsl.constant(3) * w * x * x - x, x, weight
            )

        results = [*strategy.run(program, [x, weight]), strategy.run(expression, [x, weight])]
    expected = with_gradients(with_tensorflow, tf.constant(x), tf.constant(weight))
    names = ["value", "gradient of x", "gradient of weight", "codelet expression"]
    for name, result, reference in zip(names, results, [*expected, expected[0]]):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-5, err_msg=name)
        print(f"{name}: equal to TensorFlow's")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, help="folder for the libraries, kept")
    arguments = parser.parse_args()
    if arguments.build is not None:
        main(arguments.build.resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
