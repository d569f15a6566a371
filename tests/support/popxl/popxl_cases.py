"""Compares ops of PopXL with TensorFlow: values and gradients of many, in one program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import popxl
import tensorflow as tf
from popxl import ops
from popxl.transforms import autodiff


@dataclasses.dataclass
class Case:
    """An op with inputs, and its expected results.

    Attributes:
        name: For messages.
        build: Takes PopXL tensors; returns one, or several.
        reference: Takes TensorFlow tensors; returns as many.
        inputs: Arrays; those of float32 are made float16 where that is tested.
        differentiable: Positions of the inputs whose gradients are compared; None for all floats.
        gradients: What the gradients should be, where they are not those of `reference`: takes the
            TensorFlow tensors and the gradient of the result.
        result: The type of results that are floats; None for that of the inputs.
    """

    name: str
    build: Callable[..., Any]
    reference: Callable[..., Any]
    inputs: Sequence[Any]
    differentiable: Sequence[int] | None = None
    gradients: Callable[..., Any] | None = None
    result: Any = None

    def arrays(self, dtype):
        """Returns the inputs, floats in a type."""
        arrays = [np.asarray(value) for value in self.inputs]
        return [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]

    def positions(self):
        """Returns the positions of the inputs whose gradients are compared."""
        if self.differentiable is not None:
            return list(self.differentiable)
        return [i for i, a in enumerate(map(np.asarray, self.inputs)) if a.dtype.kind == "f"]


def check(cases, dtype=np.float32, tolerance=1e-5):
    """Asserts that ops have the expected results and gradients.

    Args:
        cases: the ops.
        dtype: the type of the floats. The reference computes in float32.
        tolerance: by how much results may differ, relative and absolute.
    """
    ir = popxl.Ir()
    streams = {}
    with ir.main_graph:
        for case in cases:
            tensors = [popxl.variable(array) for array in case.arrays(dtype)]
            for i, tensor in enumerate(_results(ir, case, tensors)):
                streams[case.name, i] = popxl.d2h_stream(tensor.shape, tensor.dtype)
                ops.host_store(streams[case.name, i], tensor)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()
    for case in cases:
        for i, wanted in enumerate(_expected(case, dtype)):
            array = found[streams[case.name, i]]
            message = f"{case.name}, result {i}"
            if array.dtype.kind == "f":
                assert array.dtype == (case.result or dtype), message
            np.testing.assert_allclose(
                array, wanted, rtol=tolerance, atol=tolerance, err_msg=message
            )


def _results(ir, case, tensors):
    """Adds a case to the main graph; returns its results, then its gradients."""
    graph = ir.create_graph(lambda *inputs: case.build(*inputs), *tensors)
    count = len(graph.outputs)
    provided = [t for t in graph.outputs if t.dtype.is_floating_point]
    wanted = [graph.inputs[i] for i in case.positions()]
    if not wanted:
        return ops.call(graph, *tensors)
    info = autodiff(graph, provided, wanted)
    forward = ops.call_with_info(graph, *tensors)
    starts = [popxl.constant(upstream(t.shape), t.dtype) for t in provided]
    given = info.inputs_dict(forward)
    return [*forward.outputs[:count], *ops.call(info.graph, *starts, inputs_dict=given)]


def upstream(shape):
    """Returns the gradient of a result that is passed in."""
    return np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape).astype(np.float32)


def _expected(case, dtype):
    """Returns the results of the reference, then its gradients."""
    arrays = [
        tf.constant(a.astype(np.float32) if a.dtype.kind == "f" else a) for a in case.arrays(dtype)
    ]
    with tf.GradientTape() as tape:
        tape.watch([a for a in arrays if a.dtype.is_floating])
        results = case.reference(*arrays)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    results = [tf.convert_to_tensor(result) for result in results]
    wanted = [arrays[i] for i in case.positions()]
    floats = [result for result in results if result.dtype.is_floating]
    starts = [tf.constant(upstream(result.shape)) for result in floats]
    if case.gradients is not None:
        gradients = case.gradients(*arrays, *starts)
    else:
        gradients = tape.gradient(floats, wanted, starts) if wanted else []
    return [*results, *(tf.convert_to_tensor(gradient) for gradient in gradients)]
