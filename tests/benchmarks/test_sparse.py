"""Products of sparse matrices, and transfers to the host."""

from __future__ import annotations

import pytest
from measured import host, sparse
from measured.rows import NotExpressible, Row, parameters

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip.exchange import host_cycles


def row(workload, options, metric="speed-up vs dense", unit="x"):
    return Row(2, "s", "t", "Mk2 or Bow", workload, parameters(options), metric, 1.0, unit)


def speed_up(workload, **options):
    given = {"block": "1", "dtype": "FP16", "density": "1/16", "m=k": "4096", **options}
    text = ";".join(f"{name}={value}" for name, value in given.items())
    return sparse.predict(row(f"sparse x dense matmul, {workload} pattern", text)).value


def test_blocks_use_matrix_unit_and_elements_do_not():
    assert speed_up("static", block="16") > 1.5 * speed_up("static")
    # At most as much faster as there is less to compute, and nothing moves in no time.
    assert speed_up("static", block="16") < 16


def test_a_pattern_that_is_known_is_faster():
    assert speed_up("static") > speed_up("dynamic")


def test_fewer_elements_take_less_time():
    found = [speed_up("static", density=f"1/{n}") for n in (4, 8, 16, 32)]
    assert found == sorted(found)
    # 4 lanes in place of 64 multiply-adds: at 1/4 the vector unit loses by far.
    assert found[0] < 1


def test_sparse_rows_are_ordered_as_they_were_measured():
    # arXiv:2303.16999: 0.4, 0.9, 1.4 and 1.9.
    found = [
        speed_up("dynamic"),
        speed_up("dynamic", dtype="FP32"),
        speed_up("static", dtype="FP32"),
    ]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("dtype=FP16;density=1/16", "size or type"),
        ("m=k=64;density=1/16", "size or type"),
        ("m=k=64;dtype=FP16", "density"),
        ("m=k=64;dtype=FP16;density=2/1", "density"),
    ],
)
def test_sparse_rows_that_lack_something_are_refused(options, reason):
    with pytest.raises(NotExpressible, match=reason):
        sparse.predict(row("sparse x dense matmul, static pattern", options))


def test_transfers_take_what_model_of_chip_says():
    time = host.predict(row("output tensors", "8.8 MB at 5.5 GB/s", "transfer time", "ms"))
    assert time.value == pytest.approx(host_cycles(8.8e6, BOW) / BOW.clock * 1e3)
    rate = host.predict(row("device-to-host transfer", "", "bandwidth", "GB/s"))
    assert rate.value == pytest.approx(1 / (host_cycles(1e9, BOW) / BOW.clock), rel=1e-3)


@pytest.mark.parametrize(
    ("metric", "unit", "reason"),
    [("transfer time", "ms", "size of the transfer"), ("bandwidth", "MB/s", "unit MB/s")],
)
def test_transfers_that_lack_something_are_refused(metric, unit, reason):
    with pytest.raises(NotExpressible, match=reason):
        host.predict(row("device-to-host transfer", "", metric, unit))
