"""ONNX's own tests of nodes in the newest opsets, and why the others are left out."""

from __future__ import annotations

import fnmatch
import functools

import numpy as np
import onnx
import popart
import pytest

from tensorflow_ipu.frontends.popart.ops import registry
from tests.frontends.popart import test_onnx_nodes as nodes
from tests.support.popart import popart_models

# Tests of one model.
SIZE = 60

# Tests -> why what they ask for does not run, or is another thing here.
EXCLUDED = {
    "affine_grid_*_expanded": "branches of other shapes",
    "attention_3d*": "the reference divides heads otherwise than ONNX says",
    "attention_4d_gqa*": "the reference gives heads to groups otherwise than PyTorch",
    "attention_*qk_matmul*": "the products of queries and keys",
    "averagepool_*ceil_last_window_starts_on_pad": "a window that begins in padding",
    "bernoulli*": "random numbers",
    "*window*_expanded": "a shape that depends on data",
    "center_crop_pad_*": "a shape that depends on data",
    "convtranspose_dilations": "dilations of a transposed convolution",
    "maxpool_with_argmax*": "positions of maxima",
    "reduce_*_bool_inputs": "extremes of booleans",
    "reduce_log_sum_exp_empty_set_expanded": "a type that the device lacks",
    "resize_*antialias": "smoothing before a resize",
    "resize_*exclude_outside": "weights outside of a tensor",
    "resize_*half_pixel_symmetric": "symmetric coordinates",
    "resize_*not_larger": "sizes that keep the aspect",
    "resize_*not_smaller": "sizes that keep the aspect",
    "resize_tf_crop*": "crops",
    "roialign_mode_max": "maxima",
    "round": "the device rounds halves away from zero",
    "training_dropout*": "random numbers",
}


def is_left_out(name, model):
    """Whether a test has an op that does not run, a type that the device lacks, or is excluded."""
    known = {kind.type for kind in registry.all_ops() if not kind.domain}
    values = [*model.graph.input, *model.graph.output]
    return (
        any(opset.domain for opset in model.opset_import)
        or model.opset_import[0].version not in range(12, onnx.defs.onnx_opset_version() + 1)
        or {node.op_type for node in model.graph.node} - known
        or not {value.type.tensor_type.elem_type for value in values} <= nodes.TYPES
        or any(fnmatch.fnmatch(name, pattern) for pattern in EXCLUDED)
    )


@functools.cache
def cases():
    """Folders of tests, some for each model, by opset and number."""
    found = {}
    for folder in sorted(nodes.FOLDER.iterdir()):
        name, model = folder.name[len("test_") :], onnx.load(folder / "model.onnx")
        if not is_left_out(name, model):
            found.setdefault(model.opset_import[0].version, []).append(folder)
    return {
        f"{opset}-{start // SIZE}": folders[start : start + SIZE]
        for opset, folders in found.items()
        for start in range(0, len(folders), SIZE)
    }


def test_most_tests_count():
    assert sum(map(len, cases().values())) > 900
    names = {folder.name[len("test_") :] for folder in nodes.FOLDER.iterdir()}
    assert all(fnmatch.filter(names, pattern) for pattern in EXCLUDED)


@pytest.mark.parametrize("key", sorted(cases()))
def test_ops_compute_what_onnx_says(key):
    opset = int(key.partition("-")[0])
    model, inputs, expected = nodes.joined(cases()[key], opset)
    patterns = popart.Patterns().enablePattern("Slice2SliceSubsample", True)
    found = popart_models.infer(
        model.SerializeToString(), inputs, list(expected), patterns=patterns
    )
    for output, array in expected.items():
        assert found[output].shape == array.shape, output
        result = found[output].astype(array.dtype)
        np.testing.assert_allclose(result, array, 1e-3, 1e-5, err_msg=output)
