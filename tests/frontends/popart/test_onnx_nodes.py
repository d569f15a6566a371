"""ONNX's own tests of nodes in the opsets 6 to 11, and why the others are left out.

The package `onnx` has each test in the form of the newest opset. It counts for the opsets up to 11
in which that form is valid too, in each version of its op. All that are for one op in opset 11,
and all that are for an older one, are one model.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnx
import popart
import pytest
from onnx import checker, compose, defs, numpy_helper

from tensorflow_ipu.frontends.popart import onnx_model
from tensorflow_ipu.frontends.popart.ops import registry
from tests.support.popart import popart_models

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
OPSETS = range(6, 12)

# Test -> why what it asks for does not run, or is another thing here.
EXCLUDED = {
    "averagepool_2d_ceil_last_window_starts_on_pad": "count_include_pad",
    "averagepool_2d_pads_count_include_pad": "count_include_pad",
    "averagepool_2d_precomputed_pads_count_include_pad": "count_include_pad",
    "clip_min_greater_than_max": "opset 13 says what it means",
    "constantofshape_int_shape_zero": "the device has no empty tensors",
    "convtranspose_dilations": "dilations of a transposed convolution",
    "gather_negative_indices": "indices are unsigned on the device",
    "gather_elements_negative_indices": "indices are unsigned on the device",
    "loop11": "a slice whose bounds depend on the iteration",
    "maxpool_2d_dilations": "dilations of a pool",
    "maxpool_3d_dilations": "dilations of a pool",
    "maxpool_3d_dilations_use_ref_impl": "dilations of a pool",
    "maxpool_3d_dilations_use_ref_impl_large": "dilations of a pool",
    "maxpool_with_argmax_2d_precomputed_pads": "positions of maxima",
    "maxpool_with_argmax_2d_precomputed_strides": "positions of maxima",
    "round": "the device rounds halves away from zero",
    "scan9_sum": "a scanned axis is kept, and results are joined along it",
    "scan_sum": "the form of Scan with a batch",
    "slice_start_out_of_bounds": "the device has no empty tensors",
    "wrap_pad": "a mode of opset 19",
    **{name: "random numbers" for name in ("bernoulli_expanded", "bernoulli_seed_expanded")},
    **{
        f"{name}_expanded": "a shape that depends on data"
        for name in (
            *("range_float_type_positive_delta", "range_int32_type_negative_delta"),
            *("center_crop_pad_crop", "center_crop_pad_crop_and_pad", "center_crop_pad_pad"),
            *("center_crop_pad_crop_axes_chw", "center_crop_pad_crop_axes_hwc"),
            *("center_crop_pad_crop_negative_axes_hwc",),
        )
    },
    **{
        f"{name}_{axis}": "opset 13 has another meaning"
        for name in ("hardmax", "logsoftmax", "softmax")
        for axis in ("axis_0", "axis_1", "default_axis")
    },
    **{
        f"pow_types_{types}": "opset 12: types that differ"
        for types in (
            *("float32_int32", "float32_int64", "float32_uint32", "float32_uint64"),
            *("int32_float32", "int64_float32"),
        )
    },
}
# Ops that models can have, and that do not run.
NOT_RUNNABLE = {
    *("BitShift", "Compress", "ConcatFromSequence", "ConvInteger", "Det"),
    *("DynamicQuantizeLinear", "EyeLike", "GlobalLpPool", "LpNormalization", "LpPool"),
    *("MatMulInteger", "MaxRoiPool", "MaxUnpool", "MeanVarianceNormalization", "Multinomial"),
    *("NonMaxSuppression", "NonZero", "QLinearConv", "QLinearMatMul", "Range"),
    *("ReverseSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
    *("SequenceInsert", "SequenceLength", "Size", "SplitToSequence", "StringNormalizer"),
    *("TfIdfVectorizer", "Unique"),
}
# Numbers of the types that the device has.
TYPES = {1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13}


def reason(name, model):
    """Why a test is left out, if it is."""
    if name in EXCLUDED:
        return EXCLUDED[name]
    if any(opset.domain for opset in model.opset_import) or not is_valid(model, OPSETS[-1]):
        return "a form of a newer opset"
    types = {node.op_type for node in model.graph.node}
    if missing := types - {kind.type for kind in registry.all_ops() if not kind.domain}:
        assert missing <= NOT_RUNNABLE, missing
        return "an op that does not run"
    values = [*model.graph.input, *model.graph.output]
    if not {value.type.tensor_type.elem_type for value in values} <= TYPES:
        return "a type that the device lacks"
    return None


def is_valid(model, opset):
    """Whether a model is one of an opset, which it then has."""
    model.opset_import[0].version, model.ir_version = opset, 4
    try:
        checker.check_model(model)
    except checker.ValidationError:
        return False
    return True


def versions(model):
    """The opsets in which a model is valid: the newest for each version of its op."""
    if len(model.graph.node) > 1:
        return [OPSETS[-1]]
    type_, newest = model.graph.node[0].op_type, {}
    for opset in OPSETS:
        try:
            newest[defs.get_schema(type_, opset).since_version] = opset
        except defs.SchemaError:
            continue
    return [opset for opset in newest.values() if runs(type_, opset) and is_valid(model, opset)]


def runs(type_, opset):
    return any(k.type == type_ and not k.domain and k.since <= opset for k in registry.all_ops())


@functools.cache
def cases():
    """The tests that count, by op and opset; and how many are left out, by reason."""
    found, left = {}, {}
    for folder in sorted(FOLDER.iterdir()):
        name, model = folder.name[len("test_") :], onnx.load(folder / "model.onnx")
        why = reason(name, model)
        if why:
            left[why] = left.get(why, 0) + 1
            continue
        for opset in versions(model):
            type_ = model.graph.node[-1].op_type if opset == OPSETS[-1] else "all"
            key = f"{type_}-{opset}"
            found.setdefault(key, []).append(folder)
    return found, left


def arrays(folder, kind, count):
    files = [folder / "test_data_set_0" / f"{kind}_{i}.pb" for i in range(count)]
    return [numpy_helper.to_array(onnx.TensorProto.FromString(f.read_bytes())) for f in files]


def joined(folders, opset):
    """One model of several tests; with their inputs, and outputs to expect."""
    whole = onnx.ModelProto(ir_version=4)
    whole.opset_import.add(version=opset)
    whole.graph.name = "tests"
    inputs, expected = {}, {}
    for folder in folders:
        model = onnx.load(folder / "model.onnx")
        graph = compose.add_prefix_graph(model.graph, f"{folder.name}/")
        given = arrays(folder, "input", len(graph.input))
        data = dict(zip((value.name for value in graph.input), given))
        for tensor in known(graph, opset) & set(data):
            graph.initializer.append(numpy_helper.from_array(data.pop(tensor), tensor))
        taken = {name for node in graph.node for name in onnx_model.taken_by(node)}
        inputs.update({name: array for name, array in data.items() if name in taken})
        results = arrays(folder, "output", len(graph.output))
        expected.update(zip((value.name for value in graph.output), results))
        whole.graph.MergeFrom(graph)
    whole.graph.name = "tests"
    return whole, inputs, expected


def known(graph, opset):
    """Inputs that have to be known when a session is made."""
    return {
        node.input[position]
        for node in graph.node
        for position in registry.find("", node.op_type, opset).known
        if position < len(node.input)
    }


def test_tests_that_are_left_out_have_a_reason():
    found, left = cases()
    assert len(found) > 90 and sum(map(len, found.values())) > 600
    assert left["a form of a newer opset"] > 500
    names = {folder.name[len("test_") :] for folder in FOLDER.iterdir()}
    assert set(EXCLUDED) <= names


@pytest.mark.parametrize("key", sorted(cases()[0]))
def test_op_computes_what_onnx_says(key):
    opset = int(key.rpartition("-")[2])
    model, inputs, expected = joined(cases()[0][key], opset)
    patterns = popart.Patterns().enablePattern("Slice2SliceSubsample", True)
    found = popart_models.infer(
        model.SerializeToString(), inputs, list(expected), patterns=patterns
    )
    for output, array in expected.items():
        assert found[output].shape == array.shape, output
        result = found[output].astype(array.dtype)
        np.testing.assert_allclose(result, array, 1e-3, 1e-5, err_msg=output)


def test_unrunnable_ops_are_refused_by_name():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 2])
    y = builder.aiOnnxOpset11.det([x])
    with pytest.raises(popart.popart_exception, match=r"No op ai.onnx.Det of opset 11"):
        popart_models.infer(builder.getModelProto(), {}, [y])
