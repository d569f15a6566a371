"""Inputs that ops refuse: the error speaks of the model, not of TensorFlow's operations."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models


@pytest.fixture(scope="module")
def device():
    with popart_models.device() as device:
        yield device


def session(add, device, *infos):
    builder = popart.Builder()
    ids = [builder.addInputTensor(*info) for info in infos]
    flow = popart.DataFlow(1, [add(builder.aiOnnx, ids)])
    return popart.InferenceSession(builder.getModelProto(), flow, device)


@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        *(("softmax", "INT32"), ("abs", "UINT8"), ("elu", "INT16"), ("floor", "UINT32")),
        *(("reducel2", "INT32"), ("mean", "INT32"), ("relu", "BOOL"), ("hardmax", "BOOL")),
    ],
)
def test_types_are_refused_when_prepared(method, dtype, device):
    made = session(lambda ops, ids: getattr(ops, method)(ids), device, (dtype, [2, 3]))
    assert made.getInfo("input").data_type() == dtype
    with pytest.raises(popart.poplar_exception, match=rf"^\w+ does not take {dtype}\. Add a Cast"):
        made.prepareDevice()


def test_types_without_kernels_are_refused(device):
    made = session(lambda ops, ids: ops.matmul([*ids, *ids]), device, ("UINT8", [2, 2]))
    with pytest.raises(popart.poplar_exception, match="no supported kernel"):
        made.prepareDevice()


@pytest.mark.parametrize(
    ("add", "infos", "words"),
    [
        (
            lambda ops, ids: ops.matmul(ids),
            [("FLOAT", [2, 3, 4]), ("FLOAT", [3, 4, 5])],
            r"are 2 and 3\. Received: FLOAT   \[2 3 4\], FLOAT   \[3 4 5\]\n",
        ),
        (
            lambda ops, ids: ops.concat(ids, 1),
            [("FLOAT", [1, 2]), ("INT32", [1, 3])],
            r"Received: FLOAT   \[1 2\], INT32   \[1 3\]\n",
        ),
        (
            lambda ops, ids: ops.gather(ids),
            [("FLOAT", [2, 3]), ("FLOAT", [2])],
            r"^Indices of Op\(ai.onnx.Gather.* must be integers\. Received: FLOAT   \[2\]",
        ),
        (
            lambda ops, ids: ops.transpose(ids, [0, 0]),
            [("FLOAT", [2, 3])],
            r"^The permutation \[0 0\] of Op\(ai.onnx.Transpose.* must have each dimension",
        ),
    ],
    ids=["matmul", "concat", "gather", "transpose"],
)
def test_errors_show_types_and_shapes(add, infos, words, device):
    with pytest.raises(popart.popart_exception, match=words) as error:
        session(add, device, *infos)
    assert "{{node" not in str(error.value)
    assert error.value.__notes__[0].startswith("In the node ")


def test_axes_of_dynamic_slices_are_checked(device):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    start = builder.aiOnnx.constant(np.zeros(1, np.uint32))
    own = builder.aiGraphcore
    for made in (own.dynamicslice([x, start], [2], [1]), own.dynamiczero([x, start], [-3], [1])):
        with pytest.raises(popart.popart_exception, match=r"Axis -?\d is out of acceptable range"):
            flow = popart.DataFlow(1, [made])
            popart.InferenceSession(builder.getModelProto(), flow, device)
