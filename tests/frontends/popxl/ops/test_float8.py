"""8-bit floats: codes, casts on host and device, products and convolutions."""

from __future__ import annotations

import numpy as np
import popart
import popxl
import pytest
from popxl import fp8_utils, ops

from tests.support.popxl import popxl_programs

# Bits of the mantissa and bias, from the definition of the formats.
FORMATS = [(popxl.float8_143, 3, 8), (popxl.float8_152, 2, 16)]
RNG = np.random.default_rng(8)


def values_of(bits, bias):
    """Returns the number of each code."""
    found = []
    for code in range(256):
        exponent, mantissa = (code & 127) >> bits, code & ((1 << bits) - 1)
        fraction = mantissa / 2**bits
        size = (
            2.0 ** (exponent - bias) * (1 + fraction) if exponent else 2.0 ** (1 - bias) * fraction
        )
        found.append(np.nan if code == 128 else (-size if code & 128 else size))
    return np.array(found)


def nearest(x, bits, bias, nan_on_overflow=True):
    """Returns the code nearest to a number, by looking at all of them."""
    table = values_of(bits, bias)
    largest, step = table[127], table[127] - table[126]
    if not np.isfinite(x) or (abs(x) >= largest + step / 2 and nan_on_overflow):
        return 128
    x = np.clip(x, -largest, largest)
    distances = np.abs(table - x)
    best = np.flatnonzero(distances == np.nanmin(distances))
    even = [code for code in best if code % 2 == 0]
    return (even or list(best))[0]


def samples():
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 240, 247.9, 248, -248, 61439, 61440, 2e-6, 1e-9]
    spread = RNG.normal(size=200) * 2.0 ** RNG.integers(-20, 18, 200)
    return np.float32([*special, *spread, *values_of(3, 8)[:128], *values_of(2, 16)[:128]])


@pytest.mark.parametrize("dtype, bits, bias", FORMATS)
@pytest.mark.parametrize("scale", [0, -3, 4])
def test_host_and_device_casts_round_to_even(dtype, bits, bias, scale):
    x = samples()
    expected = np.uint8([nearest(value * 2.0**scale, bits, bias) for value in x])
    on_host = fp8_utils.host_pow2scale_cast_to_fp8(x, dtype, scale)
    assert on_host.dtype == np.dtype(dtype.as_numpy())
    np.testing.assert_array_equal(on_host.view(np.uint8), expected)
    largest = fp8_utils.host_pow2scale_cast_to_fp8(x, dtype, scale, nan_on_overflow=False)
    saturated = [nearest(value * 2.0**scale, bits, bias, False) for value in x]
    np.testing.assert_array_equal(largest.view(np.uint8), saturated)
    table = values_of(bits, bias).astype(np.float32)
    back = fp8_utils.host_pow2scale_cast_from_fp8(on_host, popxl.float64, 2)
    np.testing.assert_array_equal(back, table[expected].astype(np.float64) * 4)

    def build(t):
        power = popxl.constant(scale)
        cast = ops.pow2scale_cast_to_fp8(t, power, dtype)
        two = popxl.constant(2)
        return {
            "codes": cast,
            "half": ops.pow2scale_cast_from_fp8(cast, popxl.constant(0), popxl.float16),
            "back": ops.pow2scale_cast_from_fp8(cast, two, popxl.float32),
        }

    found = popxl_programs.run(build, [x])
    assert found["codes"].dtype == np.dtype(dtype.as_numpy())
    np.testing.assert_array_equal(found["codes"].view(np.uint8), expected)
    np.testing.assert_array_equal(found["half"], table[expected].astype(np.float16))
    np.testing.assert_array_equal(found["back"], table[expected] * 4)


def test_products_and_convolutions_are_rounded_once():
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5))
    x, w = RNG.normal(size=(1, 4, 5, 5)), RNG.normal(size=(4, 4, 3, 3))
    low, high = popxl.float8_143, popxl.float8_152
    encoded = [
        fp8_utils.host_pow2scale_cast_to_fp8(value, dtype)
        for value, dtype in ((a, low), (b, high), (x, high), (w, low))
    ]
    exact = [fp8_utils.host_pow2scale_cast_from_fp8(value) for value in encoded]

    def build():
        lhs, rhs, image, kernel = (
            popxl.constant(value, popxl.dtype.as_dtype(value.dtype)) for value in encoded
        )
        wide = [popxl.constant(value) for value in exact]
        scale = popxl.constant(-2)
        found = {
            "matmul": ops.matmul_pow2scaled(lhs, rhs, scale),
            "conv": ops.conv_pow2scaled(image, kernel, scale, (2, 2), (1, 1, 1, 1)),
            "transposed": ops.conv_transpose_pow2scaled(image, kernel, scale, (2, 2)),
        }
        assert {t.dtype for t in found.values()} == {popxl.float16}
        found["wide_matmul"] = ops.matmul(*wide[:2])
        found["wide_conv"] = ops.conv(*wide[2:], (2, 2), (1, 1, 1, 1))
        found["wide_transposed"] = ops.conv_transpose(*wide[2:], (2, 2))
        return found

    found = popxl_programs.run(build)
    np.testing.assert_array_equal(found["matmul"], (exact[0] @ exact[1] / 4).astype(np.float16))
    for name in ("matmul", "conv", "transposed"):
        wide = (found[f"wide_{name}"] / 4).astype(np.float16)
        np.testing.assert_array_equal(found[name], wide, err_msg=name)


@pytest.mark.parametrize("dtype, bits, bias", FORMATS)
def test_numbers_of_8_bits_are_scalars(dtype, bits, bias):
    with popxl.Ir().main_graph:
        for make in (popxl.constant, popxl.variable):
            t = make(2.0, dtype, log2_scale=1, nan_on_overflow=False)
            assert (t.shape, t.data.shape) == ((), ())
            assert t.data.view(np.uint8) == nearest(4.0, bits, bias)
    assert fp8_utils.host_pow2scale_cast_from_fp8(t.data).shape == ()


@pytest.mark.parametrize("dtype, bits, bias", FORMATS)
def test_variables_and_streams_of_8_bits(dtype, bits, bias):
    ir = popxl.Ir()
    data = np.float32([1, -2.5, 300])
    with ir.main_graph:
        v = popxl.variable(data, dtype, log2_scale=1, nan_on_overflow=False)
        x, out = popxl.h2d_stream((3,), dtype), popxl.d2h_stream((3,), dtype)
        ops.host_store(out, ops.host_load(x))
        both = popxl.d2h_stream((3,), dtype)
        ops.host_store(both, v)
    codes = np.uint8([nearest(value * 2, bits, bias, False) for value in data])
    with popxl.Session(ir) as session:
        session.run({x: codes.view(dtype.as_numpy())})
        found = session.run({x: codes})  # codes alone will do
    for stream in (out, both):
        np.testing.assert_array_equal(found[stream].view(np.uint8), codes)
    np.testing.assert_array_equal(v.data.view(np.uint8), codes)


@pytest.mark.parametrize(
    "data, dtype, sign",
    [
        (RNG.uniform(32, 64, 100), popxl.float8_143, -1),
        (RNG.uniform(2**-6, 2**-5, 100), popxl.float8_143, 1),
        ([0.00098, 240], popxl.float8_143, 0),
        ([2**-17, 57344], popxl.float8_152, 0),
        ([0.0], popxl.float8_143, 0),
        (RNG.normal(size=100) * 2**-12, popxl.float8_143, 1),
    ],
)
def test_scales_move_data_into_range_of_a_format(data, dtype, sign):
    data = np.asarray(data, np.float32)
    _, scale = fp8_utils.host_fp8_mse_scale(data, dtype)
    assert np.sign(scale) == sign
    assert fp8_utils.host_fp8_mse_scale_pb(data, dtype) == scale

    def error(scale):
        codes = fp8_utils.host_pow2scale_cast_to_fp8(data, dtype, scale, False)
        back = fp8_utils.host_pow2scale_cast_from_fp8(codes, popxl.float64, -scale)
        return np.mean((back - data) ** 2)

    assert error(scale) <= 1.5 * min(map(error, range(-31, 32)))


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda t, s: ops.pow2scale_cast_to_fp8(t, s, popxl.float16), TypeError, "not supported"),
        (
            lambda t, s: ops.pow2scale_cast_to_fp8(t, t, popxl.float8_143),
            ValueError,
            "must be a scalar tensor",
        ),
        (
            lambda t, s: ops.pow2scale_cast_to_fp8(t, t[0], popxl.float8_143),
            TypeError,
            "must be of type popxl.int32",
        ),
        (
            lambda t, s: ops.pow2scale_cast_from_fp8(t, s, popxl.float16),
            TypeError,
            "must be of dtype popxl.float8",
        ),
        (lambda t, s: ops.matmul_pow2scaled(t, t, s), TypeError, "must be of dtype popxl.float8"),
        (
            lambda t, s: fp8_utils.host_pow2scale_cast_to_fp8(np.zeros(2, int)),
            RuntimeError,
            "not currently supported",
        ),
        (
            lambda t, s: fp8_utils.host_pow2scale_cast_from_fp8(np.zeros(2)),
            RuntimeError,
            "not currently supported",
        ),
        (lambda t, s: popxl.variable([1], popxl.float8_143), TypeError, "not supported for float8"),
    ],
)
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(np.zeros(3)), popxl.constant(1))


@pytest.mark.parametrize("replicas", [1, 2])
def test_scales_are_checked_at_run_time(replicas):
    ir = popxl.Ir(replicas)
    with ir.main_graph:
        stream = popxl.h2d_stream((), popxl.int32)
        outs = []
        eight = popxl.constant(np.ones((2, 2, 1, 1)), popxl.float8_143)
        flat = popxl.constant(np.ones((2, 2)), popxl.float8_143)
        for use in (
            lambda s: ops.pow2scale_cast_to_fp8(popxl.constant([1.0]), s, popxl.float8_143),
            lambda s: ops.pow2scale_cast_from_fp8(flat, s, popxl.float32),
            lambda s: ops.matmul_pow2scaled(flat, flat, s),
            lambda s: ops.conv_pow2scaled(eight, eight, s),
            lambda s: ops.conv_transpose_pow2scaled(eight, eight, s),
        ):
            scale = ops.host_load(stream)
            outs.append(use(scale))
            ops.host_store(popxl.d2h_stream(outs[-1].shape, outs[-1].dtype), outs[-1])
    ir.num_host_transfers = len(outs)
    scales = np.zeros((len(outs), replicas) if replicas > 1 else (len(outs),), np.int32)
    with popxl.Session(ir, "ipu_hw") as session:
        session.run({stream: scales - 32})
        for wrong, value in ((0, 32), (1, -33), (2, 40), (3, 99), (4, -99)):
            given = scales.copy()
            given[wrong] = value
            with pytest.raises(popart.poplar_application_runtime_error, match="log2_scale"):
                session.run({stream: given})
        session.run({stream: scales + 31})


@pytest.mark.parametrize("checked", [True, False])
def test_constant_scales_are_checked_in_called_graphs(checked):
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().throwIfLog2ScaleTensorNotInRange = checked
    with ir.main_graph:
        x = popxl.variable([1.0])

        def cast(x, scale):
            return ops.pow2scale_cast_to_fp8(x, scale, popxl.float8_143)

        graph = ir.create_graph(cast, x, popxl.TensorSpec((), popxl.int32))
        for scale in (1, 40):
            (y,) = ops.call(graph, x, popxl.constant(scale))
            ops.host_store(popxl.d2h_stream(y.shape, y.dtype), y)
    with popxl.Session(ir) as session:
        if not checked:
            session.run()
            return
        with pytest.raises(popart.poplar_application_runtime_error, match="log2_scale"):
            session.run()
