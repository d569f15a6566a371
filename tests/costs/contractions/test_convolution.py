"""Convolutions: multiply-adds by hand, bounds, monotonicity, memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK1, MK2
from tensorflow_ipu.costs.contractions.conv_geometry import geometry
from tensorflow_ipu.costs.contractions.convolution import TYPES, convolution
from tensorflow_ipu.costs.contractions.matmul import matmul
from tensorflow_ipu.costs.cost import FREE, OpSpec, Resources, TensorType

FEW = settings(max_examples=30, deadline=None, derandomize=True)
RESOURCES = Resources(BOW, BOW.tiles, 0.6, "float16")
SIZES = TensorType("int32", (4,))


def spec(op_type, image, filters, result, dtype="float16", strides=1, **attributes):
    """The op of the given kind, from the shapes of the forward convolution."""
    x, f, y = (TensorType(dtype, tuple(shape)) for shape in (image, filters, result))
    spatial = len(image) - 2
    layout = attributes.setdefault("data_format", "NHWC" if spatial == 2 else "NDHWC")
    steps = [strides] * spatial
    ones = [1, 1, *steps] if "NC" in str(layout) else [1, *steps, 1]
    attributes.setdefault("strides", ones)
    if "Input" in op_type:
        return OpSpec(op_type, (SIZES, f, y), (x,), attributes)
    if "Filter" in op_type:
        return OpSpec(op_type, (x, SIZES, y), (f,), attributes)
    return OpSpec(op_type, (x, f), (y,), attributes)


def family(op_type):
    return [name for name in TYPES if name.startswith(op_type)]


# Shapes of the forward convolution, and multiply-adds: result elements x kernel x channels.
SHAPES = {
    "same": ("Conv2D", (2, 9, 9, 5), (3, 3, 5, 7), (2, 9, 9, 7), {}, 2 * 81 * 7 * 9 * 5),
    "same, stride 2": (
        "Conv2D",
        (2, 9, 9, 5),
        (3, 3, 5, 7),
        (2, 5, 5, 7),
        {"strides": 2},
        2 * 25 * 7 * 9 * 5,
    ),
    "valid": ("Conv2D", (2, 9, 8, 5), (3, 2, 5, 7), (2, 7, 7, 7), {}, 2 * 49 * 7 * 6 * 5),
    "explicit": ("Conv2D", (1, 8, 8, 4), (3, 3, 4, 4), (1, 10, 8, 4), {}, 80 * 4 * 9 * 4),
    "dilated": (
        "Conv2D",
        (1, 9, 9, 4),
        (3, 3, 4, 4),
        (1, 5, 5, 4),
        {"dilations": [1, 2, 2, 1]},
        25 * 4 * 9 * 4,
    ),
    "channels first": (
        "Conv2D",
        (2, 5, 9, 8),
        (3, 3, 5, 7),
        (2, 7, 9, 8),
        {"data_format": b"NCHW"},
        2 * 72 * 7 * 9 * 5,
    ),
    "groups": ("Conv2D", (2, 8, 8, 12), (3, 3, 4, 6), (2, 8, 8, 6), {}, 2 * 64 * 6 * 9 * 4),
    "3-D": (
        "Conv3D",
        (2, 4, 6, 8, 3),
        (3, 3, 3, 3, 5),
        (2, 4, 6, 8, 5),
        {},
        2 * 192 * 5 * 27 * 3,
    ),
    "depthwise": (
        "DepthwiseConv2dNative",
        (2, 8, 8, 12),
        (3, 3, 12, 2),
        (2, 8, 8, 24),
        {},
        2 * 64 * 24 * 9,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_multiply_adds_by_hand(name):
    op_type, image, filters, result, attributes, macs = SHAPES[name]
    for member in family(op_type):
        read = geometry(spec(member, image, filters, result, **attributes))
        assert read.macs == macs


@pytest.mark.parametrize(("dtype", "rate"), [("float16", 64), ("float32", 16)])
@pytest.mark.parametrize("name", SHAPES)
def test_no_faster_than_the_peak(name, dtype, rate):
    op_type, image, filters, result, attributes, macs = SHAPES[name]
    for member in family(op_type):
        cost = convolution(spec(member, image, filters, result, dtype, **attributes), RESOURCES)
        assert cost.compute >= macs / rate / BOW.tiles
        assert cost.exchange > 0 and cost.sync > 0 and cost.temporary > 0 and cost.codelets


@pytest.mark.parametrize("op_type", family("Conv2D"))
def test_share_of_peak_of_a_large_convolution(op_type):
    shape = (22, 56, 56, 128), (3, 3, 128, 128), (22, 56, 56, 128)
    op = spec(op_type, *shape)
    cost = convolution(op, RESOURCES)
    assert 0.35 < geometry(op).macs / (64 * BOW.tiles * cost.cycles) < 0.8


def test_few_input_channels_waste_little_of_unit():
    shape = (16, 224, 224, 3), (7, 7, 3, 64), (16, 112, 112, 64)
    op = spec("Conv2D", *shape, strides=2)
    # 3 of 16 channels would be 19 % at best; kernel positions fill up the rest.
    assert geometry(op).macs / (64 * BOW.tiles * convolution(op, RESOURCES).cycles) > 0.25


def test_pointwise_costs_as_much_as_a_matrix_product():
    pointwise = convolution(
        spec("Conv2D", (8, 28, 28, 256), (1, 1, 256, 128), (8, 28, 28, 128)), RESOURCES
    )
    product = matmul(1, 8 * 28 * 28, 256, 128, "float16", RESOURCES)
    assert pointwise.cycles == pytest.approx(product.cycles, rel=0.2)


def test_strides_cost_what_they_compute():
    dense = convolution(spec("Conv2D", (8, 56, 56, 64), (3, 3, 64, 64), (8, 56, 56, 64)), RESOURCES)
    strided = spec("Conv2D", (8, 56, 56, 64), (3, 3, 64, 64), (8, 28, 28, 64), strides=2)
    assert 0.2 < convolution(strided, RESOURCES).compute / dense.compute < 0.6


@pytest.mark.parametrize("kind", ["", "BackpropInput", "BackpropFilter"])
def test_groups_of_16_channels_fill_unit(kind):
    def cycles(op_type, filters):
        op = spec(op_type + kind, (8, 56, 56, 256), filters, (8, 56, 56, 256))
        return convolution(op, RESOURCES).compute

    dense = cycles("Conv2D", (3, 3, 256, 256))
    groups = cycles("Conv2D", (3, 3, 16, 256))
    depthwise = cycles("DepthwiseConv2dNative", (3, 3, 256, 1))
    # A 16th and a 256th of the multiply-adds.
    assert groups < dense / 4
    assert dense / 256 < depthwise < 1.2 * groups


@st.composite
def convolutions(draw):
    """A convolution by its numbers, and the same with one of them raised."""
    numbers = {
        "batch": draw(st.integers(1, 8)),
        "height": draw(st.integers(1, 30)),
        "width": draw(st.integers(1, 30)),
        "rows": draw(st.integers(1, 5)),
        "columns": draw(st.integers(1, 5)),
        "inputs": draw(st.integers(1, 70)),
        "outputs": draw(st.integers(1, 70)),
        "groups": draw(st.sampled_from([1, 1, 2, 5, 16, 33])),
    }
    name = draw(st.sampled_from(sorted(numbers)))
    return numbers, {**numbers, name: numbers[name] + draw(st.integers(1, 40))}


def grouped(kind, n, dtype, stride):
    channels, outputs = n["groups"] * n["inputs"], n["groups"] * n["outputs"]
    field = -(-n["height"] // stride), -(-n["width"] // stride)
    return spec(
        "Conv2D" + kind,
        (n["batch"], n["height"], n["width"], channels),
        (n["rows"], n["columns"], n["inputs"], outputs),
        (n["batch"], *field, outputs),
        dtype,
        strides=stride,
    )


@FEW
@given(
    convolutions(),
    st.sampled_from(["", "BackpropInput", "BackpropFilter"]),
    st.sampled_from(["float16", "float32", "int32"]),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 50, 1472]),
)
def test_cycles_rise_with_every_dimension(pair, kind, dtype, stride, tiles):
    resources = Resources(BOW, tiles, 0.1, "float16")
    small, large = (convolution(grouped(kind, n, dtype, stride), resources) for n in pair)
    assert large.cycles >= small.cycles


@FEW
@given(
    st.sampled_from(sorted(SHAPES)),
    st.integers(1, 1471),
    st.integers(0, 2),
    st.sampled_from([0.05, 0.6]),
)
def test_memory_never_rises_with_tiles(name, tiles, member, proportion):
    op_type, image, filters, result, attributes, _ = SHAPES[name]
    op = spec(family(op_type)[member], image, filters, result, **attributes)
    fewer, more = (convolution(op, Resources(BOW, n, proportion)) for n in (tiles, tiles + 1))
    for field in ("temporary", "vertex_state", "exchange_code"):
        assert getattr(more, field) <= getattr(fewer, field)
    assert more.codelets == fewer.codelets


@pytest.mark.parametrize("kind", ["", "BackpropInput", "BackpropFilter"])
def test_a_smaller_proportion_saves_memory_and_costs_cycles(kind):
    op = spec("Conv2D" + kind, (32, 56, 56, 512), (3, 3, 512, 512), (32, 56, 56, 512))
    large, small = (convolution(op, Resources(MK2, 1472, part)) for part in (0.6, 0.05))
    assert small.temporary <= 0.05 * MK2.memory_per_tile < large.temporary
    assert small.cycles > 1.5 * large.cycles


# Seconds of 200 convolutions of 3 x 3, 4 to 4 channels, on one Mk1 at 1.6 GHz, each followed by a
# copy of its result: thorbenlouw/lbm-graphcore, effect-of-mem-on-convolution/results.csv. No figure
# is fitted to them, but they decided between rules: one kernel row at a time in float32, and one
# position for each worker where the bound is too small for one group of channels.
MEASURED_ON_MK1 = [
    ((302, 499), "float16", 0.2, 0.00060595),
    ((302, 499), "float32", 0.2, 0.0016749),
    ((1024, 768), "float16", 0.1, 0.045276),
    ((1024, 768), "float16", 0.2, 0.0016564),
    ((1024, 768), "float32", 0.1, 0.060271),
    ((1122, 2200), "float16", 0.1, 0.14364),
    ((1122, 2200), "float32", 0.2, 0.17731),
]


@pytest.mark.parametrize(("image", "dtype", "proportion", "seconds"), MEASURED_ON_MK1)
def test_times_agree_with_measurements_on_mk1(image, dtype, proportion, seconds):
    shape = (1, *image, 4)
    op = spec("Conv2D", shape, (3, 3, 4, 4), shape, dtype)
    cost = convolution(op, Resources(MK1, MK1.tiles, proportion, "float32"))
    assert cost.cycles == pytest.approx(seconds / 200 * 1.6e9, rel=0.3)


@pytest.mark.parametrize("op_type", TYPES)
def test_an_empty_convolution_is_free(op_type):
    middle = [4] * (3 if "3D" in op_type else 2)
    shape = (0, *middle, 4), (*middle, 4, 1 if "Depthwise" in op_type else 4), (0, *middle, 4)
    assert convolution(spec(op_type, *shape), RESOURCES) == FREE


def test_integers_take_vector_arithmetic():
    shape = (2, 8, 8, 16), (3, 3, 16, 16), (2, 8, 8, 16)
    for member in family("Conv2D"):
        assert convolution(spec(member, *shape, dtype="int32"), RESOURCES).codelets == (
            "multiply_int32",
        )
