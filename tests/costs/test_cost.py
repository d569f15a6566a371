"""How an op is divided over the tiles, as its cost says."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW, MK1
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import Cost, Partition, Resources
from tests.support.planner.op_specs import f16, f32, i32, op

HALVES = Partition((("rows", 2), ("columns", 1)))
THIRDS = Partition((("positions", 3),))


@pytest.mark.parametrize(
    ("partition", "text", "tiles"),
    [
        (Partition((("rows", 24), ("columns", 1), ("indices", 50))), "rows 24, indices 50", 1200),
        (Partition((("rows", 1),)), "1 tile", 1),
        (
            Partition((("inputs", 2), ("outputs", 8)), 3, "float16"),
            "inputs 2, outputs 8; 3 serial parts; partials float16",
            16,
        ),
    ],
)
def test_a_partition_names_the_dimensions_that_are_divided(partition, text, tiles):
    assert (str(partition), partition.tiles) == (text, tiles)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ((Cost(9.0), Cost(1.0, partition=HALVES)), HALVES),
        ((Cost(1.0, partition=HALVES), Cost(9.0)), HALVES),
        ((Cost(1.0, partition=HALVES), Cost(9.0, partition=THIRDS)), THIRDS),
        ((Cost(9.0), Cost(1.0)), None),
    ],
)
def test_several_steps_have_the_partition_of_the_longest_that_has_one(steps, kept):
    assert (steps[0] + steps[1]).partition == kept


@pytest.mark.parametrize("chip", [MK1, BOW])
@pytest.mark.parametrize("tiles", [1, 100, 1216])
@pytest.mark.parametrize(
    "spec",
    [
        op("MatMul", (f16(1024, 512), f16(512, 2048)), f16(1024, 2048)),
        op("Conv2D", (f16(4, 28, 28, 64), f16(3, 3, 64, 64)), f16(4, 28, 28, 64)),
        op(
            "DepthwiseConv2dNative",
            (f32(4, 28, 28, 64), f32(3, 3, 64, 1)),
            f32(4, 28, 28, 64),
            strides=[1, 1, 1, 1],
        ),
    ],
    ids=lambda spec: spec.type,
)
def test_products_use_no_more_tiles_than_there_are(spec, tiles, chip):
    partition = cost_of(spec, Resources(chip, tiles)).partition
    assert 1 <= partition.tiles <= tiles
    assert tiles < 100 or partition.tiles > tiles / 2


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        # The matrix unit takes 16 channels of float16 at a time, and makes 8 with float32 sums.
        # Rows of the left or columns of the right operand stream through it.
        (op("MatMul", (f16(5, 48), f16(48, 20)), f16(5, 20)), max(5 * 3 * 3, 20 * 3 * 1)),
        (op("BatchMatMulV2", (f16(3, 2, 16), f16(3, 16, 8)), f16(3, 2, 8)), 3 * max(2, 8)),
        (
            op(
                "DepthwiseConv2dNative",
                (f32(1, 3, 3, 2), f32(1, 1, 2, 1)),
                f32(1, 3, 3, 2),
                strides=[1, 1, 1, 1],
            ),
            3 * 3,
        ),
    ],
    ids=lambda value: getattr(value, "type", None),
)
def test_parts_are_those_that_have_something(spec, most):
    partition = cost_of(spec, Resources(BOW, BOW.tiles)).partition
    assert partition.tiles <= most


def test_serial_parts_are_as_many_as_the_memory_asks_for():
    spec = op("MatMul", (f16(4096, 4096), f16(4096, 4096)), f16(4096, 4096))
    few, many = (
        cost_of(spec, Resources(BOW, BOW.tiles, proportion, "float16")).partition
        for proportion in (1.0, 0.02)
    )
    assert 1 <= few.serial < many.serial
    assert many.partials == "float16"


def test_elementwise_ops_have_none():
    assert (
        cost_of(op("AddV2", (f32(100), f32(100)), f32(100)), Resources(BOW, 10)).partition is None
    )
    sums = cost_of(op("Sum", (f32(8, 8), i32(1)), f32(8), axes=[1]), Resources(BOW, 10))
    assert sums.partition is None
