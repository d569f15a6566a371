"""ONNX's own tests of nodes, for the ops that run: as they are for opsets up to 11.

Where the package has a test only in the form of a newer opset, it is used if that form is valid in
opset 11 too.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnx
import popart
import pytest
from onnx import checker, numpy_helper

from tensorflow_ipu.frontends.popart.ops import kinds
from tests.support import popart_models

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
NEWEST = 11

# Test -> why what it asks for does not run, or is another thing here.
EXCLUDED = {
    "averagepool_2d_ceil_last_window_starts_on_pad": "count_include_pad",
    "averagepool_2d_pads_count_include_pad": "count_include_pad",
    "averagepool_2d_precomputed_pads_count_include_pad": "count_include_pad",
    "clip_min_greater_than_max": "opset 13 says what it means",
    "convtranspose_dilations": "dilations of a transposed convolution",
    "gather_negative_indices": "indices are unsigned on the device",
    "gather_elements_negative_indices": "indices are unsigned on the device",
    "hardmax_axis_0": "opset 13 has another meaning",
    "hardmax_axis_1": "opset 13 has another meaning",
    "hardmax_default_axis": "opset 13 has another meaning",
    "logsoftmax_axis_0": "opset 13 has another meaning",
    "logsoftmax_axis_1": "opset 13 has another meaning",
    "logsoftmax_default_axis": "opset 13 has another meaning",
    "maxpool_2d_dilations": "dilations of a pool",
    "maxpool_3d_dilations": "dilations of a pool",
    "maxpool_3d_dilations_use_ref_impl": "dilations of a pool",
    "maxpool_3d_dilations_use_ref_impl_large": "dilations of a pool",
    "maxpool_with_argmax_2d_precomputed_pads": "positions of maxima",
    "maxpool_with_argmax_2d_precomputed_strides": "positions of maxima",
    "pow_types_float32_int32": "opset 12: types that differ",
    "pow_types_float32_int64": "opset 12: types that differ",
    "pow_types_float32_uint32": "opset 12: types that differ",
    "pow_types_float32_uint64": "opset 12: types that differ",
    "pow_types_int32_float32": "opset 12: types that differ",
    "pow_types_int64_float32": "opset 12: types that differ",
    "round": "the device rounds halves away from zero",
    "softmax_axis_0": "opset 13 has another meaning",
    "softmax_axis_1": "opset 13 has another meaning",
    "softmax_default_axis": "opset 13 has another meaning",
    "wrap_pad": "a mode of opset 19",
    "constantofshape_int_shape_zero": "the device has no empty tensors",
    "slice_start_out_of_bounds": "the device has no empty tensors",
}


@functools.cache
def cases():
    """The tests that count, by op."""
    found = {}
    runnable = {kind.type for kind in kinds.all_kinds() if not kind.domain}
    for folder in sorted(FOLDER.iterdir()):
        model = onnx.load(folder / "model.onnx")
        types = [node.op_type for node in model.graph.node]
        if len(types) == 1 and types[0] in runnable and _is_for_opset(model):
            found.setdefault(types[0], []).append((folder, model))
    return found


def _is_for_opset(model):
    """Whether a model is valid in an opset that is supported; it then is of that one."""
    opset = next((opset for opset in model.opset_import if opset.domain == ""), None)
    if opset is None or opset.version <= 5:
        return False
    opset.version = min(opset.version, NEWEST)
    model.ir_version = 4
    try:
        checker.check_model(model)
    except checker.ValidationError:
        return False
    values = [*model.graph.input, *model.graph.output]
    kinds_of = {value.type.tensor_type.elem_type for value in values}
    return kinds_of <= {1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13}


def _arrays(folder, kind, values):
    files = [folder / "test_data_set_0" / f"{kind}_{i}.pb" for i in range(len(values))]
    return [numpy_helper.to_array(onnx.TensorProto.FromString(f.read_bytes())) for f in files]


def _known(model):
    """Positions of inputs that have to be known when a session is made."""
    node = model.graph.node[0]
    return kinds.find("", node.op_type, model.opset_import[0].version).known


TYPES = sorted(cases())


def test_most_ops_have_a_test():
    assert len(TYPES) > 90 and sum(map(len, cases().values())) > 380


@pytest.mark.parametrize("type_", TYPES)
def test_op_computes_what_onnx_says(type_):
    for folder, model in cases()[type_]:
        name = folder.name[len("test_") :]
        if name in EXCLUDED:
            continue
        graph = model.graph
        inputs = dict(zip((v.name for v in graph.input), _arrays(folder, "input", graph.input)))
        expected = _arrays(folder, "output", graph.output)
        for position in _known(model):
            if position < len(graph.node[0].input) and graph.node[0].input[position]:
                tensor = graph.node[0].input[position]
                graph.initializer.append(numpy_helper.from_array(inputs.pop(tensor), tensor))
        outputs = [value.name for value in graph.output]
        data = {key: array for key, array in inputs.items() if key in graph.node[0].input}
        found = popart_models.infer(model.SerializeToString(), data, outputs)
        for output, array in zip(outputs, expected):
            assert found[output].shape == array.shape, name
            np.testing.assert_allclose(
                found[output].astype(array.dtype), array, 1e-3, 1e-5, err_msg=name
            )


def test_ops_that_do_not_run_are_refused_by_name():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 2])
    y = builder.aiOnnxOpset11.det([x])
    with pytest.raises(popart.popart_exception, match=r"No op ai.onnx.Det of opset 11"):
        popart_models.infer(builder.getModelProto(), {}, [y])
