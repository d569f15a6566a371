"""Linear layers of 8-bit floats and of 4-bit numbers, against NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import fp8_utils
from popxl_addons.layers.linear_fp8 import LinearFP8
from popxl_addons.layers.linear_gq import LinearGQ
from popxl_addons.ops import group_quantize_decompress as gq
from popxl_addons.testing_utils import TensorInput, run_module

from tests.frontends.popxl_addons.layers.test_layers import computed

RNG = np.random.default_rng(13)
X, W, B = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 3)) * 0.02, RNG.normal(size=3)
SLOPE = RNG.normal(size=(4, 3))
F143, F152 = popxl.float8_143, popxl.float8_152


def rounded(t, dtype, scale):
    """A tensor as 8-bit floats hold it."""
    codes = fp8_utils.host_pow2scale_cast_to_fp8(t, dtype, scale)
    return fp8_utils.host_pow2scale_cast_from_fp8(codes, popxl.float64, -scale)


def scale_of(t, dtype, metric, manual):
    if metric == "manual_scale":
        return manual
    if metric == "mse":
        return fp8_utils.host_fp8_mse_scale_pb(t, dtype)
    largest = {F143: 240, F152: 57344}[dtype]
    return int(np.clip(np.floor(np.log2(largest / np.abs(t).max())), -31, 31))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("metric", "manual"), [("amax", 0), ("mse", 0), ("manual_scale", 3), ("manual_scale", -14)]
)
def test_products_and_gradients_are_8_bit_floats(metric, manual, dtype):
    x, w, b, slope = (t.astype(dtype) for t in (X, W, B, SLOPE))
    factor = 2.0**6 if manual == -14 else 1  # so that a product is left
    x, w = (x * dtype(factor), w * dtype(factor)) if dtype == np.float32 else (x, w)
    layer = LinearFP8(3, scale_metric=metric, scale=manual)
    found = computed(layer, x, {"weight": w, "bias": b}, slope)
    x8, w8 = (rounded(t, F143, scale_of(t, F143, metric, manual)) for t in (x, w))
    scale = int(np.clip(scale_of(slope, F152, metric, manual) - 3, -31, 31))
    dy8 = rounded(slope, F152, scale)
    expected = {
        "y": np.float16(x8 @ w8).astype(dtype) + b,
        "x": dy8 @ w8.T,
        "weight": x8.T @ dy8,
        "bias": slope.astype(np.float64).sum(0),
    }
    for name, wanted in expected.items():
        assert found[name].dtype == dtype
        allowed = 2e-3 * max(np.abs(wanted).max(), 1e-6)
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=allowed, err_msg=name)
    assert np.abs(found["weight"] - x.astype(np.float64).T @ slope).max() > 0


def test_8_bit_layers_take_matrices_and_known_metrics():
    with pytest.raises(ValueError, match="scale_metric must be one of"):
        LinearFP8(3, scale_metric="largest")
    with pytest.raises(ValueError, match="scale must be from -31 to 31"):
        LinearFP8(3, scale=32)
    with popxl.Ir().main_graph:
        with pytest.raises(ValueError, match="takes a matrix"):
            LinearFP8(3).create_graph(popxl.TensorSpec((2, 3, 4), popxl.float16))
        factories, graph = LinearFP8(3, bias=False).create_graph(
            popxl.TensorSpec((4, 6), popxl.float16)
        )
        assert factories.keys_flat() == ["weight"]
        assert len(graph.autodiff().grad_graph_info.outputs) == 2


def test_8_bit_layers_are_called_by_others():
    class Calls(addons.Module):
        def build(self, x: popxl.Tensor):
            (y,) = self.call_module(LinearFP8(3, bias=False), "part")(x + x)
            return y * y

    x, w = X.astype(np.float32), W.astype(np.float32)
    found = computed(Calls(), x, {"part.weight": w}, SLOPE)
    x8, w8 = (rounded(t, F143, scale_of(t, F143, "amax", 0)) for t in (x + x, w))
    y = np.float16(x8 @ w8).astype(np.float32)
    slope = (2 * SLOPE * y).astype(np.float32)
    dy8 = rounded(slope, F152, scale_of(slope, F152, "amax", 0) - 3)
    expected = {"y": y * y, "x": 2 * dy8 @ w8.T, "part.weight": x8.T @ dy8}
    for name, wanted in expected.items():
        allowed = 2e-3 * np.abs(wanted).max()
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=allowed, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("size", "dim"), [(0, -1), (4, 0), (4, -1)])
def test_weights_of_4_bits_are_decompressed_before_product(size, dim, dtype):
    weight = RNG.normal(size=(8, 12)).astype(np.float32)
    packed, scale, shift = gq.group_quantize_compress_numpy(weight, size, dim)
    x, b = RNG.normal(size=(4, 8)).astype(dtype), RNG.normal(size=12).astype(dtype)
    values = {
        "weight_compressed": packed,
        "weight_decompression_scale": scale.astype(dtype),
        "weight_decompression_bias": shift.astype(dtype),
        "bias": b,
    }

    def given(variables):
        assert sorted(variables.keys()) == sorted(values)
        return addons.WeightsDict({variables[name]: array for name, array in values.items()})

    layer = LinearGQ(12, group_size=size, dim=dim)
    (found,) = run_module(layer, TensorInput(x), weights=given)
    numbers = gq.group_quantize_decompress_numpy(packed, scale, shift, dim).astype(np.float64)
    expected = x.astype(np.float64) @ numbers + b
    allowed = 5e-3 if dtype == np.float32 else 3e-2
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)


def test_initial_numbers_scales_and_biases_share_weight():
    with popxl.Ir(2).main_graph as main:
        groups = main.ir.replica_grouping(group_size=1)
        layer = LinearGQ(8, bias=False, replica_grouping=groups)
        factories, _ = layer.create_graph(popxl.TensorSpec((2, 4), popxl.float16))
        for _ in range(2):
            made = factories.init()
            for i in range(2):
                weight = gq.group_quantize_decompress_numpy(
                    *(made[name].data[i] for name in factories.keys())
                )
                assert 0.01 < np.abs(weight).max() < 0.041 and 0.01 < weight.std() < 0.03
        assert made.weight_compressed.dtype is popxl.uint16
        last = made.weight_compressed.data
        assert (last[0] != last[1]).any()
