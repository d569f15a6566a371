"""Rows of products, convolutions, exchanges and vertices: parsed values and refusals."""

from __future__ import annotations

import re

import pytest
from measured import convolutions, elementwise, exchange, products, tile_vertices
from measured.groups import NAMES, group_of
from measured.harness import HARNESSES, is_first_release
from measured.implausible import implausible
from measured.predict import predict
from measured.rows import Row, parameters

from tensorflow_ipu.configs.chips import BOW, MK1, MK2
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.chip.exchange import sync_cycles
from tensorflow_ipu.costs.contractions import convolution
from tensorflow_ipu.costs.cost import OpSpec, Resources, TensorType

HALF = "float16"


def row(workload, options="", metric="time", unit="cycles", chip="Bow", source="s", value=1.0):
    return Row(2, source, "t", chip, workload, parameters(options), metric, value, unit)


def cycles_of(op_type, inputs, output, chip=BOW, **attributes):
    spec = OpSpec(op_type, inputs, (output,), attributes)
    return catalogue.cost_of(spec, Resources(chip, chip.tiles)).cycles


# Products.


def test_square_products_are_read_by_side():
    matrix = TensorType(HALF, (512, 512))
    expected = cycles_of("MatMul", (matrix, matrix), matrix)
    for options in ("n=512;dtype=fp16", "N=512;FP16 in", "size=512;half precision"):
        found = products.predict(row("library matmul, square", options))
        assert found.value == pytest.approx(expected)


def test_skewed_products_are_read_by_three_sides():
    left, right = TensorType(HALF, (64, 768)), TensorType(HALF, (768, 3072))
    expected = cycles_of("MatMul", (left, right), TensorType(HALF, (64, 3072)))
    found = [
        products.predict(row("matmul", "m=64;k=768;n=3072;dtype=half")),
        products.predict(row("GEMM [64, 768] x [768, 3072], fp16")),
        products.predict(row("matmul 64 x 768 x 3072, fp16")),
    ]
    assert [one.value for one in found] == pytest.approx([expected] * 3)


def test_batched_products_are_read_with_their_number():
    left, right = TensorType(HALF, (12, 128, 64)), TensorType(HALF, (12, 64, 128))
    expected = cycles_of("BatchMatMulV2", (left, right), TensorType(HALF, (12, 128, 128)))
    options = "m=128;k=64;n=128;dtype=fp16;"
    found = [
        products.predict(row("batched matmul", options + "groups=12;batch=1")),
        products.predict(row("batched matmul", options + "batch=12")),
    ]
    assert [one.value for one in found] == pytest.approx([expected] * 2)


def test_throughput_is_two_operations_per_product():
    options = "m=64;k=128;n=256;dtype=fp16;groups=3"
    cycles = products.predict(row("batched matmul", options)).value
    rate = products.predict(row("batched matmul", options, unit="GFLOP/s")).value
    assert rate == pytest.approx(2 * 3 * 64 * 128 * 256 * BOW.clock / cycles / 1e9)


def test_sums_of_half_products_are_float_by_default():
    found = products.predict(row("matmul", "n=64;dtype=fp16"))
    assert "float16, float32" in found.configuration
    half = products.predict(row("matmul", "n=64;dtype=fp16;partials=half"))
    assert "float16, float16" in half.configuration


def test_linear_mappings_take_longer():
    options = "n=512;dtype=fp32;mapping="
    library, linear = (
        products.predict(row("matmul, square", options + kind)) for kind in ("library", "basic")
    )
    assert linear.value > library.value


@pytest.mark.parametrize(
    ("workload", "options", "reason"),
    [
        ("matmul, square", "dtype=fp32", "sizes of the matrices"),
        ("matmul", "n=64;availableMemoryProportion=2", "between 0 and 1"),
        ("library reduce, on chip", "tiles=5000;operands per tile=4", "more tiles"),
        ("matmul", "m=64;n=64", "sizes of the matrices"),
        ("matmul", "m=64;k=0;n=64", "no whole number"),
        ("matmul", "n=many", "not given as a number"),
        ("batched matmul", "m=64;k=64;n=64", "number of products"),
        ("matmul", "n=64;dtype=int8", "lacks"),
        ("matmul [4, 8] x [16, 4]", "dtype=fp32", "do not fit"),
        ("library convolution", "in=8;filter=3;Cin=4", "cout"),
        ("library convolution", "in=8x9;filter=3;Cin=4;Cout=4", "side of the in"),
        ("library convolution", "filter=3;Cin=4;Cout=4", "side of the in"),
        ("library convolution", "in=8;filter=0;Cin=4;Cout=4", "side of the filter"),
        ("library convolution", "in=8;filter=3;Cin=6;Cout=8;groups=4", "divisible"),
        ("library convolution", "in=2;filter=3;Cin=4;Cout=4;padding=valid", "larger"),
        ("library convolution, backward", "in=8;filter=3;Cin=4;Cout=4", "gradient"),
        ("gather to one tile, 4 bytes per source, on chip", "", "number of tiles"),
        ("gather to one tile, on chip", "tiles=4", "size of the messages"),
        ("library reduce to one value, on chip", "tiles=4", "number of operands"),
        ("local memory read", "float4", "width of the loads"),
        ("elementwise ReLU", "elements=1024", "type of the elements"),
        ("convolution vertex on one tile", "batch=1;Cin=4;Cout=4;kernel area=9", "out h"),
        ("softmax vertex on one tile", "h*w=9", "not in the list"),
    ],
)
def test_bad_rows_are_refused_with_the_reason(workload, options, reason):
    outcome = predict([row(workload, options), row("matmul", "n=64;dtype=fp16")])
    assert [len(outcome.predictions), len(outcome.refused)] == [1, 1]
    assert re.search(reason, outcome.refused[0][1])


# Convolutions.


def test_convolutions_have_batch_stride_and_groups():
    image, kernel = TensorType(HALF, (4, 15, 15, 64)), TensorType(HALF, (3, 3, 2, 128))
    given = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    expected = cycles_of("Conv2D", (image, kernel), TensorType(HALF, (4, 8, 8, 128)), **given)
    options = "filter=3;in=15;Cin=64;Cout=128;stride=2;groups=32;batch=4"
    found = convolutions.predict(row("library convolution, fp16", options))
    assert found.value == pytest.approx(expected)
    rate = convolutions.predict(row("library convolution, fp16", options, unit="TFLOP/s"))
    products_of = 4 * 8 * 8 * 3 * 3 * 2 * 128
    assert rate.value == pytest.approx(2 * products_of * BOW.clock / expected / 1e12)


def test_convolutions_without_padding_have_fewer_results():
    options = "filter=5;in=12;Cin=16;Cout=16;batch=8"
    same, valid = (
        convolutions.predict(row("library convolution, fp16", options + more)).value
        for more in ("", ";padding=valid")
    )
    assert valid < same


# Exchange.


@pytest.mark.parametrize(
    ("workload", "options", "busiest"),
    [
        ("random permutation exchange, 4 bytes per tile, on chip", "transfers=76", 4),
        ("broadcast of 4 bytes, on chip", "destination tiles=2", 4),
        ("gather to one tile, 4 bytes per source, on chip", "source tiles=304", 304 * 4),
        ("scatter from one tile, 4 bytes per destination, on chip", "tiles=38", 38 * 4),
        ("all-to-all, 4 bytes per pair, on chip", "tiles=16", 15 * 4),
    ],
)
def test_patterns_on_chip_take_what_busiest_tile_moves(workload, options, busiest):
    found = exchange.predict(row(workload, options, "latency", chip="GC2"))
    least = sync_cycles(1, MK1) + busiest / MK1.exchange_rate
    assert least <= found.value <= least + 2 * MK1.exchange_overhead


def test_bandwidths_count_all_messages():
    options = ("broadcast of 100 KiB, on chip", "destination tiles=4")
    rate = exchange.predict(row(*options, "aggregate bandwidth", "GB/s", chip="GC2")).value
    cycles = exchange.predict(row(*options, "time", chip="GC2")).value
    assert rate == pytest.approx(4 * 100 * 1024 / (cycles / MK1.clock) / 1e9)


def test_messages_over_links_take_longer():
    pattern = "gather to one tile, 4 bytes per source"
    found = [
        exchange.predict(row(f"{pattern}, on chip", "source tiles=1216", chip="GC2")),
        exchange.predict(row(f"{pattern}, over IPU-Links", "2 IPUs same board", chip="GC2")),
    ]
    assert found[0].value < found[1].value
    assert [group_of(one.row) for one in found] == [
        "exchange on the chip",
        "exchange between chips",
    ]


def test_a_gather_hides_the_way_of_far_words():
    gather = exchange.predict(
        row("gather to one tile, 4 bytes per source, on chip", "source tiles=608", chip="GC2")
    )
    scatter = exchange.predict(
        row("scatter from one tile, 4 bytes per destination, on chip", "tiles=608", chip="GC2")
    )
    assert scatter.value - gather.value == pytest.approx(MK1.exchange_overhead)


def test_more_operands_take_longer_to_reduce():
    found = [
        exchange.predict(row("library reduce", f"operands per tile={n};tiles=1216")).value
        for n in (1, 100, 10_000)
    ]
    assert found == sorted(found)
    assert found[0] < found[-1]


# Vertices and elementwise operations.


def test_vertices_are_the_vertex_of_the_op():
    image, kernel = TensorType(HALF, (2, 16, 16, 4)), TensorType(HALF, (3, 3, 4, 8))
    given = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    spec = OpSpec("Conv2D", (image, kernel), (TensorType(HALF, (2, 16, 16, 8)),), given)
    options = "batch=2;Cin=4;Cout=8;out h*w=256;kernel area=9"
    found = tile_vertices.predict(row("convolution vertex on one tile", options, chip="GC200"))
    assert found.value == pytest.approx(convolution.vertex_cycles(spec, MK2))


def test_releases_are_priced_by_text_of_chip():
    options = "n=512;dtype=fp16"
    young, later = (
        products.predict(row("matmul, square", options, chip=f"GC2 (SDK {release})")).value
        for release in ("1.0.49", "2.0")
    )
    assert young > later


def test_copies_of_a_harness_are_added_by_source():
    options = ("elementwise ReLU", "elements=1472000;dtype=fp16", "time")
    plain = elementwise.predict(row(*options, chip="GC200")).value
    copied = elementwise.predict(row(*options, chip="GC200", source="Peng et al. 2024")).value
    _, harness = HARNESSES["peng et al"]
    # 2,000 bytes of the operand and of the result on each tile.
    expected = harness.start + 2 * (harness.tensor + 2000 * harness.copy)
    assert copied - plain == pytest.approx(expected)


def test_memory_reads_are_loads_of_one_width():
    found = [
        elementwise.predict(row("local memory read", f"{width}-bit", unit="TB/s", chip="GC2"))
        for width in (32, 64, 128)
    ]
    rate = MK1.tiles * MK1.clock / 1e12
    assert [one.value for one in found] == pytest.approx([4 * rate, 8 * rate, 16 * rate])


# Groups, releases and rows that cannot be right.


def test_every_row_has_a_group_of_the_table():
    known = group_of(row("batched matmul", "m=8;k=8;n=8;batch=2"))
    assert known == "batched products"
    assert group_of(row("matmul", "n=8", chip="GC2")) == "products, Mk1, library mapping"
    assert group_of(row("a new program")) == NAMES[-1]


def test_the_release_is_that_of_the_text():
    assert is_first_release(row("matmul", chip="GC2 1.6 GHz (C2 card, SDK 1.0.49)"))
    assert not is_first_release(row("matmul", chip="GC2 1.6 GHz (SDK 1.10)"))


def test_rows_that_cannot_be_right_are_left_out():
    options = "net=a;layer=b;filter=1;in=8;Cin=64;Cout=64;batch="
    series = [
        row("library convolution, fp16", f"{options}{batch}", unit="TFLOP/s", value=value)
        for batch, value in ((8, 20.0), (16, 2.0), (32, 30.0), (64, 14.9))
    ]
    vertex = "batch=2;Cin=1;Cout=4;out h*w=64;kernel area=49"
    rows = [*series, row("convolution vertex on one tile", vertex)]
    assert sorted(implausible(rows)) == [1, 4]
    outcome = predict(rows)
    assert len(outcome.predictions) == 3
    assert all(reason.startswith("left out") for _, reason in outcome.refused)


def test_training_sped_up_by_host_processes_is_excluded():
    model, options = "ResNet-50 training, PopTorch", "replicas=4;instances="
    rows = [
        row(model, f"{options}{instances}", metric="throughput", unit="samples/s", value=value)
        for instances, value in ((1, 7_600.0), (2, 9_500.0), (4, 10_000.0))
    ]
    found = implausible(rows)
    assert list(found) == [0]
    assert "host" in found[0]
    # Other replicas, or another source, are another machine.
    assert not implausible([rows[0], rows[2]._replace(source="other")])
    fewer = row(model, "replicas=2;instances=1", unit="samples/s", value=7_600.0)
    assert not implausible([fewer._replace(metric="throughput"), rows[2]])
