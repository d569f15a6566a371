"""Tests of numbers of 8 bits, against ml_dtypes and TensorFlow in float32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import profiler
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import Resources
from tensorflow_ipu.ops import f8_ops
from tensorflow_ipu.ops.f8_ops import Format, QuarterTensor
from tests.support.planner import op_specs
from tests.support.programs import replicas

tf1 = tf.compat.v1
# The same formats, written down by others.
REFERENCE = {Format.F143: ml_dtypes.float8_e4m3fnuz, Format.F152: ml_dtypes.float8_e5m2fnuz}
FORMATS = pytest.mark.parametrize("fmt", Format)
ALL_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def expected_codes(values: np.ndarray, fmt: Format, scale: int) -> np.ndarray:
    """Codes that ml_dtypes rounds to; finite values are first clipped to the range."""
    dtype = REFERENCE[fmt]
    largest = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(invalid="ignore"):
        scaled = np.clip(values.astype(np.float64) * 2.0**-scale, -largest, largest)
    finite = np.where(np.isfinite(values), scaled, np.nan)
    return finite.astype(np.float32).astype(dtype).view(np.uint8)


def rounded(values: np.ndarray, fmt: Format, scale: int) -> np.ndarray:
    """Values after rounding to 8 bits, in float32."""
    codes = expected_codes(values.astype(np.float16), fmt, scale)
    return codes.view(REFERENCE[fmt]).astype(np.float32) * np.float32(2.0**scale)


def numbers(*shape: int) -> np.ndarray:
    """Random numbers."""
    return np.random.default_rng(shape).normal(0, 2, shape).astype(np.float32)


class TestMetadata:
    """The byte that belongs to a tensor."""

    @pytest.mark.parametrize(
        ("fmt", "scale", "byte"),
        [
            (Format.F143, 0, 128),
            (Format.F152, 0, 0),
            (Format.F143, 5, 133),
            (Format.F152, -1, 63),
            (Format.F143, -32, 160),
            (0, 31, 159),
        ],
    )
    def test_format_and_scale_make_the_byte(self, fmt, scale, byte):
        assert f8_ops.create_metadata(fmt, scale) == byte

    def test_the_default_scale_is_zero(self):
        assert f8_ops.create_metadata(Format.F143) == 128
        assert [Format.F143.value, Format.F152.value] == [0, 1]

    @pytest.mark.parametrize("scale", [-33, 32, 0.5, True, None])
    def test_a_scale_out_of_range_is_refused(self, scale):
        with pytest.raises(ValueError, match="scale must be an int from -32 to 31"):
            f8_ops.create_metadata(Format.F143, scale)

    @pytest.mark.parametrize("fmt", [2, "F143"])
    def test_an_unknown_format_is_refused(self, fmt):
        with pytest.raises(ValueError, match=r"fmt must be Format.F143 or Format.F152"):
            f8_ops.create_metadata(fmt)


class TestQuarterTensor:
    """Data and metadata together."""

    def test_tensor_is_a_pair_of_data_and_metadata(self):
        data, metadata = np.uint8([[1, 2, 3]]), np.uint8(128)
        tensor = QuarterTensor(data, metadata)
        assert tensor.shape == (1, 3)
        unpacked, byte = tensor
        assert unpacked is tensor.data
        assert byte is tensor.metadata
        for got, want in zip(tensor.numpy(), (data, metadata)):
            np.testing.assert_array_equal(got, want)
        assert "QuarterTensor" in repr(tensor)

    @pytest.mark.parametrize(
        ("data", "metadata", "argument"),
        [(np.int8([1]), np.uint8(0), "data"), (np.uint8([1]), np.int32(0), "metadata")],
    )
    def test_other_types_are_refused(self, data, metadata, argument):
        with pytest.raises(TypeError, match=f"The {argument} of a QuarterTensor must be .*uint8"):
            QuarterTensor(data, metadata)


class TestConversion:
    """All numbers of 16 and 8 bits."""

    @FORMATS
    @pytest.mark.parametrize("scale", [0, 1, -3, 12, 31, -32])
    def test_every_half_has_the_code_of_the_reference(self, fmt, scale):
        result = f8_ops.convert_to_f8(ALL_HALVES, f8_ops.create_metadata(fmt, scale))
        np.testing.assert_array_equal(
            result.numpy()[0], expected_codes(ALL_HALVES, fmt, scale), strict=True
        )
        assert result.metadata.numpy() == f8_ops.create_metadata(fmt, scale)

    @FORMATS
    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_every_code_has_the_value_of_the_reference(self, fmt, dtype):
        codes = np.arange(256, dtype=np.uint8)
        tensor = QuarterTensor(codes, np.uint8(f8_ops.create_metadata(fmt, -1)))
        result = f8_ops.convert_from_f8(tensor, dtype).numpy()
        expected = codes.view(REFERENCE[fmt]).astype(np.float32) / 2
        np.testing.assert_array_equal(result, expected.astype(dtype), strict=True)

    @FORMATS
    @pytest.mark.parametrize("scale", [-2, 0, 3])
    def test_converting_there_and_back_rounds_once(self, fmt, scale):
        values = numbers(100)
        metadata = f8_ops.create_metadata(fmt, scale)
        back = f8_ops.convert_from_f8(f8_ops.convert_to_f8(values, metadata))
        assert back.dtype == tf.float16
        relative = 2.0 ** -(4 if fmt is Format.F143 else 3)
        np.testing.assert_allclose(back, values, rtol=relative * 1.01, atol=2.0 ** (scale - 10))
        again = f8_ops.convert_from_f8(f8_ops.convert_to_f8(back, metadata))
        np.testing.assert_array_equal(again, back)

    @FORMATS
    def test_integers_are_converted(self, fmt):
        result = f8_ops.convert_to_f8([1, 2, -3], f8_ops.create_metadata(fmt))
        np.testing.assert_array_equal(f8_ops.convert_from_f8(result, tf.int32), [1, 2, -3])

    @FORMATS
    def test_metadata_that_is_known_at_run_time_only(self, fmt):
        def program(values, metadata):
            def body(x):
                return f8_ops.convert_from_f8(f8_ops.convert_to_f8(x, metadata)) + 1

            return loops.repeat(2, body, [values])

        with tf.Graph().as_default(), tf1.Session() as session:
            replicas.configure(1)
            values = tf1.placeholder(tf.float16, [50])
            metadata = tf1.placeholder(tf.uint8, [])
            with scopes.ipu_scope("/device:IPU:0"):
                (result,) = ipu_compiler.compile(program, [values, metadata])
            fed = numbers(50).astype(np.float16)
            byte = f8_ops.create_metadata(fmt, 1)
            got = session.run(result, {values: fed, metadata: byte})
        once = (rounded(fed, fmt, 1) + 1).astype(np.float16)
        expected = (rounded(once, fmt, 1) + 1).astype(np.float16)
        np.testing.assert_array_equal(got, expected)

    def test_conversions_run_in_a_program_on_two_replicas(self):
        def program():
            half = tf.constant(ALL_HALVES[:1000])
            return list(f8_ops.convert_to_f8(half, f8_ops.create_metadata(Format.F143)))

        data, metadata = replicas.run(2, program)
        expected = expected_codes(ALL_HALVES[:1000], Format.F143, 0)
        np.testing.assert_array_equal(data, [expected] * 2)
        assert metadata.tolist() == [128, 128]

    def test_wrong_arguments_are_refused(self):
        with pytest.raises(TypeError, match="Expected a QuarterTensor"):
            f8_ops.convert_from_f8(tf.constant(1.0))
        with pytest.raises(ValueError, match="metadata must be a byte"):
            f8_ops.convert_to_f8([1.0], 256)
        with pytest.raises(TypeError, match="uint8"):
            f8_ops.convert_to_f8([1.0], tf.constant(128))


def pair(first: np.ndarray, second: np.ndarray, plain: int | None) -> tuple[Any, Any, Any, Any]:
    """Two operands, one of them perhaps a plain tensor, and their values."""
    made, means = [], []
    settings = [(Format.F143, 1), (Format.F152, -2)]
    for index, (values, setting) in enumerate(zip((first, second), settings)):
        if index == plain:
            made.append(tf.constant(values))
            means.append(values.astype(np.float16).astype(np.float32))
        else:
            made.append(f8_ops.convert_to_f8(values, f8_ops.create_metadata(*setting)))
            means.append(rounded(values, *setting))
    return (*made, *means)


class TestProducts:
    """Matrix products and convolutions of the values that 8-bit numbers stand for."""

    @pytest.mark.parametrize("plain", [None, 0, 1])
    @pytest.mark.parametrize("batch", [(), (4,)])
    def test_products_equal_numpy(self, batch, plain):
        a, b, left, right = pair(numbers(*batch, 5, 6), numbers(*batch, 6, 7), plain)
        result = f8_ops.f8_matmul(a, b)
        assert result.dtype == tf.float16
        np.testing.assert_allclose(result, np.matmul(left, right), rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("padding", ["SAME", "VALID"])
    @pytest.mark.parametrize(
        ("rank", "strides", "dilations"),
        [(rank, *window) for rank in (1, 2, 3) for window in ((1, 1), (2, 1), (1, 2))],
    )
    def test_convolutions_equal_tensorflow(self, rank, strides, dilations, padding):
        x, kernel = numbers(2, *[7, 6, 5][:rank], 3), numbers(*[3, 2, 2][:rank], 3, 4)
        a, b, left, right = pair(x, kernel, None)
        convolve = getattr(f8_ops, f"f8_conv_{rank}d")
        result = convolve(a, b, strides, padding, dilations=dilations)
        expected = tf.nn.convolution(left, right, strides, padding, dilations=dilations)
        assert result.dtype == tf.float16
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=5e-3)

    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_channels_first_equals_channels_last(self, rank):
        x, kernel = numbers(2, *[5] * rank, 3), numbers(*[2] * rank, 3, 4)
        a, b, left, right = pair(x, kernel, 0)
        turned = tf.transpose(a, [0, rank + 1, *range(1, rank + 1)])
        convolve = getattr(f8_ops, f"f8_conv_{rank}d")
        data_format = "NC" + "DHW"[3 - rank :]
        result = convolve(turned, b, [1, 1, *[2] * rank], "SAME", data_format=data_format)
        expected = tf.nn.convolution(left, right, 2, "SAME")
        back = tf.transpose(result, [0, *range(2, rank + 2), 1])
        np.testing.assert_allclose(back, expected, rtol=1e-3, atol=5e-3)

    @pytest.mark.parametrize("padding", [[[0, 0], [1, 2], [0, 1], [0, 0]], [[1, 2], [0, 1]]])
    def test_explicit_padding_equals_padded_inputs(self, padding):
        a, b, left, right = pair(numbers(1, 4, 4, 2), numbers(2, 2, 2, 3), None)
        result = f8_ops.f8_conv_2d(a, b, 1, padding)
        padded = np.pad(left, [[0, 0], [1, 2], [0, 1], [0, 0]])
        expected = tf.nn.conv2d(padded, right, 1, "VALID")
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=5e-3)

    @pytest.mark.parametrize("in_session", [False, True])
    def test_products_and_convolutions_run_in_a_program(self, in_session):
        values = numbers(2, 4, 4, 2), numbers(2, 2, 2, 3)

        def program():
            a, b, _, _ = pair(*values, None)
            return f8_ops.f8_conv_2d(a, b), f8_ops.f8_matmul(a, tf.ones([2, 2, 4, 1])[:, :1, :2])

        image, product = replicas.run(2, program, in_session)
        _, _, left, right = pair(*values, None)
        expected = tf.nn.conv2d(left, right, 1, "VALID")
        for replica in range(2):
            np.testing.assert_allclose(image[replica], expected, rtol=1e-3, atol=5e-3)
            total = left.sum(-1, keepdims=True)
            np.testing.assert_allclose(product[replica], total, rtol=1e-3, atol=1e-3)


class TestProductErrors:
    """Errors."""

    def test_unknown_shapes_are_refused(self):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float16)])
        def product(x):
            return f8_ops.f8_matmul(x, tf.ones([2, 2]))

        with pytest.raises(ValueError, match="f8_matmul needs operands of known shape.*lhs"):
            product(tf.ones([1, 2], tf.float16))

    def test_an_unknown_data_format_is_refused(self):
        with pytest.raises(ValueError, match="data_format must be NHWC or NCHW"):
            f8_ops.f8_conv_2d(tf.ones([1, 2, 2, 1]), tf.ones([1, 1, 1, 1]), data_format="NWC")

    @pytest.mark.parametrize("strides", [[2, 1, 1, 1], [1, 2, 3], []])
    def test_wrong_strides_are_refused(self, strides):
        with pytest.raises(ValueError, match="strides must be an int, 2 of them, or 4"):
            f8_ops.f8_conv_2d(tf.ones([1, 2, 2, 1]), tf.ones([1, 1, 1, 1]), strides)

    def test_wrong_padding_is_refused(self):
        with pytest.raises(ValueError, match='padding must be "SAME", "VALID", or a pair'):
            f8_ops.f8_conv_2d(tf.ones([1, 2, 2, 1]), tf.ones([1, 1, 1, 1]), 1, [[1, 1]])


class TestPlans:
    """Programs compute products in float32; plans charge 8-bit products at their own rate."""

    @pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
    def test_products_of_8_bits_are_priced_as_such(self, data_format):
        last = data_format == "NHWC"

        def program(x, image):
            metadata = f8_ops.create_metadata(Format.F143)
            narrow = f8_ops.convert_to_f8(x, metadata)
            eight = f8_ops.convert_to_f8(image, metadata)
            filters = f8_ops.convert_to_f8(tf.ones([3, 3, 32, 32]), metadata)
            return (
                f8_ops.f8_matmul(narrow, narrow),
                f8_ops.f8_conv_2d(eight, filters, 1, "SAME", data_format),
                tf.matmul(x, x),
            )

        shape = [4, 14, 14, 32] if last else [4, 32, 14, 14]
        with tf.Graph().as_default(), tf1.Session() as session:
            with scopes.ipu_scope("/device:IPU:0"):
                x, image = (
                    tf1.placeholder(tf.float32, [256, 256]),
                    tf1.placeholder(tf.float32, shape),
                )
                results = ipu_compiler.compile(program, [x, image])
            fed = {x: np.ones([256, 256]), image: np.ones(shape)}
            eight_bits, convolved, _ = session.run(results, fed)
        np.testing.assert_array_equal(eight_bits, np.full([256, 256], 256, np.float16))
        assert convolved.max() == 9 * 32
        executable = profiler.executables()[-1]
        ops = {op.type: op for op in executable.workload.ops}
        product, convolution = ops["Float8MatMul"], ops["Float8Conv"]
        assert product.flops == 2 * 256**3
        assert convolution.flops == 2 * 4 * 14 * 14 * 32 * 9 * 32
        resources = Resources(BOW, BOW.tiles)
        costs = {op.type: cost_of(op.spec, resources) for op in ops.values()}
        assert costs["Float8MatMul"].cycles < costs["MatMul"].cycles
        same = op_specs.f16(4, 14, 14, 32)
        wide = op_specs.op("Conv2D", (same, op_specs.f16(3, 3, 32, 32)), same)
        assert 0 < costs["Float8Conv"].cycles <= cost_of(wide, resources).cycles
        assert "Conv2D" not in ops
