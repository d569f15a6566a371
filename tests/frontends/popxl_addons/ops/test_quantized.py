"""Scales of 8-bit floats, weights of 4 bits and constant sparse matrices, against NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import fp8_utils
from popxl_addons.ops import group_quantize_decompress as gq
from popxl_addons.ops import linear_layout, static_sparse_ops
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale

from tests.support.popxl import popxl_programs

RNG = np.random.default_rng(12)
FORMATS = {popxl.float8_143: 240, popxl.float8_152: 57344}
# Among them powers of two, whose logarithms must not be rounded down, and both ends.
LARGEST = [240 / 2**k for k in range(-12, 14, 5)] + [57344 / 2**k for k in (0, 3, 13)]
LARGEST += [3e-30, 239.99, 240.01, 3e30]


def test_scales_by_largest_element_are_greatest_that_fit():
    def build(*tensors):
        found = {}
        for dtype in FORMATS:
            scales = [addons.fp8_amax_scale(t, dtype) for t in tensors]
            assert scales[0].shape == () and scales[0].dtype is popxl.int32
            found[dtype.name] = popxl.ops.concat([scale.reshape((1,)) for scale in scales])
        return found

    rows = [np.array([0.0, -x, x / 3], np.float32) for x in LARGEST]
    found = popxl_programs.run(build, [*rows, np.zeros(2, np.float16), np.float16([-120, 3])])
    for dtype, limit in FORMATS.items():
        ratios = limit / np.array([np.abs(row).max() for row in rows], np.float64)
        expected = np.clip(np.floor(np.log2(ratios)), -31, 31).tolist()
        expected += [31, np.floor(np.log2(limit / 120))]
        np.testing.assert_array_equal(found[dtype.name], expected)


def scale_by_squared_error(array, dtype):
    """The scale with the least mean of squared errors, of equal ones the smallest."""
    wide, found = array.astype(np.float64), []
    for scale in range(-31, 32):
        codes = fp8_utils.host_pow2scale_cast_to_fp8(wide, dtype, scale, nan_on_overflow=False)
        back = fp8_utils.host_pow2scale_cast_from_fp8(codes, popxl.float64, -scale)
        found.append((np.mean((back - wide) ** 2), abs(scale), scale))
    return np.int32(min(found)[2])


def test_scales_by_squared_error_are_those_of_numpy():
    arrays = [
        RNG.normal(size=64).astype(np.float32),
        (RNG.normal(size=(8, 8)) * 3000).astype(np.float16),
        np.array([1.0, 2.0, -4.0], np.float32),
        np.zeros(3, np.float16),
    ]

    def build(*tensors):
        return {
            f"{dtype.name} {i}": fp8_mse_scale(t, dtype)
            for dtype in FORMATS
            for i, t in enumerate(tensors)
        }

    expected = {
        f"{dtype.name} {i}": scale_by_squared_error(array, dtype)
        for dtype in FORMATS
        for i, array in enumerate(arrays)
    }
    popxl_programs.check(build, arrays, expected)


def test_scales_are_floats_for_8_bit_formats():
    with popxl.Ir().main_graph:
        whole, real = popxl.constant([1, 2]), popxl.constant([1.0])
        for scale in (addons.ops.fp8_amax_scale, fp8_mse_scale):
            with pytest.raises(RuntimeError, match="float16 or float32"):
                scale(whole)
            with pytest.raises(RuntimeError, match="float8_143 or float8_152"):
                scale(real, popxl.float16)


def unpacked(packed):
    """The numbers of 4 bits by their hexadecimal digits."""
    return np.array([int(digit, 16) for n in packed.reshape(-1) for digit in f"{n:04x}"])


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_4_bit_weights_decompress_alike_on_device(dim):
    weight = RNG.normal(size=(8, 16)).astype(np.float32)
    packed, scale, bias = gq.group_quantize_compress_numpy(weight, 8, dim)
    rows = 8 if dim % 2 else 16
    assert packed.shape == (rows, 16 * 8 // rows // 8, 2) and packed.dtype == np.uint16
    lines = np.moveaxis(weight, dim, -1).reshape(rows, -1, 8)
    np.testing.assert_array_equal(bias[..., 0], lines.min(-1).astype(np.float16))
    steps = (lines.max(-1) - lines.min(-1)) / 15
    np.testing.assert_array_equal(scale[..., 0], steps.astype(np.float16))
    numbers = unpacked(packed).reshape(rows, -1, 8)
    expected = np.moveaxis((numbers * scale + bias).reshape(rows, -1), -1, dim)
    host = gq.group_quantize_decompress_numpy(packed, scale, bias, dim)
    np.testing.assert_allclose(host, expected, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(host, weight, atol=steps.max() / 2 + 5e-3)

    def build(s, b):
        return {"w": gq.group_quantize_decompress(popxl.constant(packed), s, b, dim)}

    popxl_programs.check(build, [scale, bias], {"w": host}, 2e-3)


def test_empty_groups_are_lines_and_constants_exact():
    weight = np.full((4, 8), 0.5, np.float32)
    packed, scale, bias = gq.group_quantize_compress_numpy(weight, 0)
    assert packed.shape == (4, 1, 2) and not scale.any()
    found = gq.group_quantize_decompress_numpy(packed, scale, bias)
    np.testing.assert_array_equal(found, weight)


def test_shapes_that_are_no_groups_are_refused():
    packed = np.zeros((2, 3, 4), np.uint16)
    fits = np.zeros((2, 3, 1), np.float16)
    with popxl.Ir().main_graph:
        for call, make in (
            (gq.group_quantize_decompress_numpy, np.asarray),
            (gq.group_quantize_decompress, popxl.constant),
        ):
            with pytest.raises(NotImplementedError, match="rows, groups, ids"):
                call(make(packed[0]), make(fits), make(fits))
            for scale, bias in ((fits[:1], fits), (fits, fits[:, :1])):
                with pytest.raises(ValueError, match="must have the shape"):
                    call(make(packed), make(scale), make(bias))
            with pytest.raises(ValueError, match="dim must be an axis"):
                call(make(packed), make(fits), make(fits), 2)
        with pytest.raises(ValueError, match="uint16"):
            whole = popxl.constant(packed.astype(np.int32))
            gq.group_quantize_decompress(whole, popxl.constant(fits), popxl.constant(fits))
    with pytest.raises(ValueError, match="multiple of 4"):
        gq.group_quantize_compress_numpy(np.zeros((4, 8)), 6)
    with pytest.raises(NotImplementedError, match="Only matrices"):
        gq.group_quantize_compress_numpy(np.zeros((4, 8, 2)), 4)


class Rows:
    """A sparse matrix with the attributes of SciPy's."""

    data = np.array([2.0, 3.0, 4.0])
    indices = np.array([1, 0, 3])
    indptr = np.array([0, 1, 1, 3])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sparse_products_equal_dense_ones(dtype):
    dense = np.array([[0, 2, 0, 0], [0, 0, 0, 0], [3, 0, 0, 4]], dtype)
    x = RNG.normal(size=(2, 3)).astype(dtype)
    triple = (Rows.data, Rows.indices, Rows.indptr)

    def build(x):
        product = static_sparse_ops.dense_const_sparse_matmul
        found = {f"{i}": product(x, csr, 4) for i, csr in enumerate((Rows, triple, dense))}
        return found | {"same": linear_layout.linear_layout(x, 4)}

    expected = {"0": x @ dense, "1": x @ dense, "2": x @ dense, "same": x}
    popxl_programs.check(build, [x], expected, 1e-5 if dtype == np.float32 else 1e-2)


def test_random_sparse_matrices_keep_a_part_of_elements():
    before = RNG.normal(size=(6, 10))
    for options, kept in (({"density": 0.3}, 18), ({}, 30), ({"density": 0.0}, 1)):
        dense = before.copy()
        assert static_sparse_ops.random_sparse(dense, **options) is dense
        assert np.count_nonzero(dense) == kept
        np.testing.assert_array_equal(dense[dense != 0], before[dense != 0])
    with pytest.raises(ValueError, match="density from 0 to 1"):
        static_sparse_ops.random_sparse(dense, 2)
    with popxl.Ir().main_graph:
        product = static_sparse_ops.dense_const_sparse_matmul
        with pytest.raises(RuntimeError, match="float16 or float32"):
            product(popxl.constant([[1, 2, 3]]), Rows, 4)
        with pytest.raises(ValueError, match="element in column 3"):
            product(popxl.constant(np.ones((1, 3), np.float32)), Rows, 3)
        with pytest.raises(popxl.errors.popart_exception, match="contracting"):
            product(popxl.constant(np.ones((1, 2), np.float32)), Rows, 4)
