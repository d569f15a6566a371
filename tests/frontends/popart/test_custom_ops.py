"""Ops of users in models."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import popart
import popart.custom_ops
import pytest
import tensorflow as tf

from tensorflow_ipu.ops import custom_ops
from tests.support.popart import popart_models

X, Y = np.array([1.5, -2.0, 0.25], np.float32), np.array([0.5, 4.0, -1.0], np.float32)


def test_functions_are_computed_and_differentiated():
    @popart.custom_ops.register("tests.ops", "Powers")
    def powers(x, *, exponents):
        return [x**number for number in exponents]

    builder = popart.Builder()
    w = builder.addInitializedInputTensor(X)
    outputs = builder.customOp("Powers", 7, "tests.ops", [w], {"exponents": [2, 3]}, 2)
    loss = builder.aiGraphcore.identityloss([outputs[1]], popart.ReductionType.Sum)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, [w], outputs)
    np.testing.assert_allclose([found[name] for name in outputs], [X**2, X**3], 1e-6)
    np.testing.assert_allclose(found[w], 3 * X**2, 1e-6)


def test_libraries_run_on_the_device(tmp_path):
    library = tmp_path / "libproduct.so"
    source = Path(__file__).parents[2] / "ops" / "custom_op_libraries" / "precompiled.cc"
    command = ["g++", "-std=c++17", "-O0", "-shared", "-fPIC", "-I", custom_ops.include_dir()]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)

    @popart.custom_ops.register("tests.ops", "Product")
    def product(x, y):
        outs = {"output_types": [tf.float32], "output_shapes": [x.shape]}
        return custom_ops.precompiled_user_op([x, y], library, outs=outs)

    builder = popart.Builder()
    ids = [builder.addInitializedInputTensor(array) for array in (X, Y)]
    (z,) = builder.customOp("Product", 1, "tests.ops", ids, {})
    loss = builder.aiGraphcore.identityloss([z], popart.ReductionType.Sum)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, ids, [z])
    np.testing.assert_allclose(found[z], X * Y)
    np.testing.assert_allclose([found[name] for name in ids], [Y, X])


def test_ops_that_are_there_cannot_be_registered():
    for domain in ("", "ai.onnx", "ai.graphcore"):
        with pytest.raises(ValueError, match="cannot be registered"):
            popart.custom_ops.register(domain, "Relu")
