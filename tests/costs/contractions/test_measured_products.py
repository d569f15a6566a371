"""Products and convolutions against published measurements: a band for each group."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs.chips import MK1, MK2
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.contractions.convolution import vertex_cycles
from tensorflow_ipu.costs.cost import OpSpec, Resources, TensorType
from tensorflow_ipu.costs.releases import SDK_1_0

# Peng et al. (ICPE 2024). Their programs copy the first operand and the result: 1.12 cycles a byte.
PENG = dataclasses.replace(MK2, clock=1.33e9)
COPIED = 1.12


def product(batch, m, k, n, dtype, resources):
    shapes = [(batch, m, k), (batch, k, n), (batch, m, n)]
    if batch == 1:
        shapes = [shape[1:] for shape in shapes]
    left, right, result = (TensorType(dtype, shape) for shape in shapes)
    cost = cost_of(OpSpec("BatchMatMulV2", (left, right), (result,), {}), resources)
    return cost.cycles, left.num_bytes + result.num_bytes


def convolution(batch, image, inputs, outputs, kernel, stride, groups=1):
    field = -(-image // stride)
    return OpSpec(
        "Conv2D",
        (
            TensorType("float16", (batch, image, image, inputs)),
            TensorType("float16", (kernel, kernel, inputs // groups, outputs)),
        ),
        (TensorType("float16", (batch, field, field, outputs)),),
        {"strides": [1, stride, stride, 1], "data_format": "NHWC"},
    )


@pytest.mark.parametrize(
    ("batch", "m", "k", "n", "dtype", "rate", "band"),
    [
        (1, 1280, 1280, 1280, "float16", 64.133, 0.1),
        (1, 4096, 4096, 4096, "float16", 80.846, 0.1),
        (1, 2688, 2688, 2688, "float32", 42.592, 0.1),
        (1, 1024, 1024, 4096, "float16", 70.77, 0.1),
        (48, 384, 64, 384, "float16", 33.671, 0.2),
        (64, 512, 64, 512, "float32", 22.276, 0.2),
        (512, 512, 64, 512, "float16", 24.398, 0.3),
        (1024, 512, 64, 512, "float16", 9.011, 0.3),
    ],
)
def test_products_agree_with_tensorflow_on_mk2(batch, m, k, n, dtype, rate, band):
    cycles, copied = product(batch, m, k, n, dtype, Resources(PENG, PENG.tiles))
    cycles += 700 + COPIED * copied / PENG.tiles
    measured = 2 * batch * m * k * n / (rate * 1e12) * PENG.clock
    assert cycles == pytest.approx(measured, rel=band)


# Jia et al. (arXiv:1912.03413).
@pytest.mark.parametrize(
    ("size", "dtype", "rate"),
    [(256, "float16", 11.26), (1024, "float16", 48.64), (2560, "float32", 17.59)],
)
def test_products_agree_with_sdk_1_0_on_mk1(size, dtype, rate):
    resources = Resources(MK1, MK1.tiles, release=SDK_1_0)
    cycles, _ = product(1, size, size, size, dtype, resources)
    assert 2 * size**3 / cycles * MK1.clock / 1e12 == pytest.approx(rate, rel=0.15)


@pytest.mark.parametrize(
    ("sizes", "rate", "band"),
    [
        ((1, 112, 64, 64, 3, 2), 30.6, 0.15),
        ((128, 28, 128, 128, 3, 1), 62.66, 0.2),
        ((16, 56, 64, 256, 1, 1), 56.99, 0.15),
        ((8, 227, 3, 96, 11, 4), 11.15, 0.35),
        ((128, 7, 1024, 1024, 3, 1, 32), 51.85, 0.2),
        ((16, 14, 512, 512, 1, 1, 32), 22.02, 0.2),
        ((16, 28, 256, 256, 1, 1, 32), 6.23, 0.3),
        ((4, 56, 128, 256, 1, 1, 32), 0.92, 0.3),
    ],
)
def test_convolutions_agree_with_sdk_1_0_on_mk1(sizes, rate, band):
    spec = convolution(*sizes)
    cost = cost_of(spec, Resources(MK1, MK1.tiles, release=SDK_1_0))
    filters, result = spec.inputs[1], spec.outputs[0]
    per_output = filters.elements // filters.shape[-1]
    operations = 2 * result.elements * per_output
    assert operations / cost.cycles * MK1.clock / 1e12 == pytest.approx(rate, rel=band)


# platformxlab/elk: vertices on one tile of Mk2.
@pytest.mark.parametrize(
    ("batch", "side", "inputs", "outputs", "kernel", "measured"),
    [
        (1, 60, 8, 8, 3, 104880),
        (1, 16, 32, 32, 3, 99639),
        (1, 60, 4, 8, 3, 59373),
        (1, 32, 4, 4, 7, 35350),
        (1, 64, 1, 16, 1, 16737),
    ],
)
def test_vertices_agree_with_measurements_on_mk2(batch, side, inputs, outputs, kernel, measured):
    spec = convolution(batch, side, inputs, outputs, kernel, 1)
    assert vertex_cycles(spec, MK2) == pytest.approx(measured, rel=0.3)


def test_attention_slows_down_when_results_exceed_the_memory():
    def seconds_of_each(batch):
        cycles, _ = product(16 * batch, 512, 64, 512, "float16", Resources(PENG, PENG.tiles))
        return cycles / batch

    few, some, many = (seconds_of_each(batch) for batch in (4, 32, 64))
    assert 1.5 * few < some < many / 1.5
