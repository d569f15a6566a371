"""Forms of ops that ONNX's own tests leave out, against ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.popart import popart_models

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(2, 3, 4).astype(np.float32)
IMAGE = RANDOM.randn(1, 2, 5, 6).astype(np.float32)
BYTES = RANDOM.randint(-9, 9, (2, 4)).astype(np.int8)
SCALES = (RANDOM.rand(2, 2) + 0.5).astype(np.float32)


def floats(*values):
    return np.array(values, np.float32)


def integers(*values):
    return np.array(values, np.int64)


def running_sums():
    """A body of Scan: the sum so far, which is a result of each iteration too."""
    nodes = [
        helper.make_node("Add", ["sum", "row"], ["next"]),
        helper.make_node("Identity", ["next"], ["each"]),
    ]
    values = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4])
        for name in ("sum", "row", "next", "each")
    }
    ends = list(values.values())
    return helper.make_graph(nodes, "body", ends[:2], ends[2:])


# Opset: ops with inputs, attributes, and positions of the inputs that are weights.
CASES = {
    6: [("PRelu", [X, floats(0.5, 1, 2)], {}, ())],
    12: [
        ("BatchNormalization", [X, *floats([1, 2, 3], [3, 2, 1], [0, 1, 0], [1, 2, 3])], {}, ()),
        ("Scan", [X[0, 0], X[0]], {"body": running_sums(), "num_scan_inputs": 1}, ()),
        ("Slice", [X, integers(0), integers(9), integers(2), integers(3)], {}, (1, 2, 3, 4)),
        ("Gather", [X, integers(-1, 0)], {"axis": 1}, ()),
        ("ScatterND", [X, integers([1], [-2]), X * 2], {}, ()),
        ("Resize", [IMAGE, None, floats(1, 1, 0.6, 1.5)], {"mode": "cubic"}, (2,)),
    ],
    18: [
        ("Slice", [X, integers(-1), integers(-9), integers(2), integers(-2)], {}, (1, 2, 3, 4)),
        ("ReduceSumSquare", [X], {"noop_with_empty_axes": 1}, ()),
        (
            "Resize",
            [IMAGE, None, floats(1, 1, 0.6, 1.5)],
            {"mode": "cubic", "cubic_coeff_a": -0.5},
            (2,),
        ),
        (
            "RoiAlign",
            [IMAGE, floats([1, 1, 4, 3], [2, 0.5, 2.5, 2]), integers(0, 0)],
            {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
            (),
        ),
    ],
    23: [
        (
            "DequantizeLinear",
            [BYTES, SCALES],
            {"axis": 1, "block_size": 2},
            (),
        ),
        (
            "QuantizeLinear",
            [X[:, :, 0], SCALES[0], np.array([3, -4], np.int16)],
            {"axis": 0},
            (),
        ),
    ],
}


@pytest.mark.parametrize("opset", CASES)
def test_ops_compute_what_the_reference_does(opset):
    graph = onnx.GraphProto(name="ops")
    data = {}
    for number, (type_, arrays, attributes, weights) in enumerate(CASES[opset]):
        names = ["" if a is None else f"{number}/{i}" for i, a in enumerate(arrays)]
        outputs = [f"y{number}/{i}" for i in range(1 + (type_ == "Scan"))]
        graph.node.append(helper.make_node(type_, names, outputs, **attributes))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        for i, (name, array) in enumerate(zip(names, arrays)):
            if i in weights:
                graph.initializer.append(numpy_helper.from_array(array, name))
            elif name:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
                data[name] = array
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    if opset == 12:  # where the reference normalizes otherwise
        model.opset_import[0].version = 14
    wanted = ReferenceEvaluator(model).run(None, data)
    model.opset_import[0].version = opset
    outputs = [value.name for value in graph.output]
    found = popart_models.infer(model.SerializeToString(), data, outputs)
    for output, expected in zip(outputs, wanted):
        assert found[output].shape == expected.shape, output
        assert found[output].dtype == expected.dtype, output
        np.testing.assert_allclose(found[output], expected, 1e-4, 1e-5, err_msg=output)
