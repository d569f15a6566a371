"""Runs functions that build PopXL ops, for tests that compare them with NumPy and TensorFlow."""

from __future__ import annotations

import numpy as np
import popxl
from popxl import ops


def run(build, inputs=(), transfers=1, replicas=1):
    """Builds a program and runs it once.

    Args:
        build: takes a tensor for each input, loaded from a stream; returns tensors by name, which
            are stored.
        inputs: arrays.
        transfers: `num_host_transfers`, the leading length of the inputs if it is not 1.
        replicas: the number of replicas, after that.

    Returns:
        The arrays by name.
    """
    ir = popxl.Ir(replicas)
    ir.num_host_transfers = transfers
    leading = (transfers > 1) + (replicas > 1)
    with ir.main_graph:
        loads, stores = {}, {}
        arguments = []
        for array in map(np.asarray, inputs):
            stream = popxl.h2d_stream(array.shape[leading:], popxl.dtype.as_dtype(array.dtype))
            loads[stream] = array
            arguments.append(ops.host_load(stream))
        for name, tensor in build(*arguments).items():
            stores[name] = popxl.d2h_stream(tensor.shape, tensor.dtype)
            ops.host_store(stores[name], tensor)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run(loads)
    return {name: found[stream] for name, stream in stores.items()}


def check(build, inputs, expected, tolerance=1e-5):
    """Asserts that a program computes given arrays, of the same types.

    Args:
        build: as for `run`.
        inputs: arrays.
        expected: arrays by name.
        tolerance: by how much results may differ, relative and absolute.
    """
    found = run(build, inputs)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)
