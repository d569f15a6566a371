"""The comparison with measurements: the file of rows, the rules, the statistics, the script."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from measured import convergence, distinct, on_tile, page, report, units
from measured.configuration import BERT_BASE, BERT_LARGE, RESNET, configuration
from measured.element_types import types_of
from measured.predict import Outcome, predict
from measured.prediction import Prediction
from measured.rows import COLUMNS, OWN, NotExpressible, Row, chip_of, parameters, read
from measured.statistics import spearman, statistics
from measured.stencil import library

from tensorflow_ipu.configs.chips import BOW, MK1, MK2

ROOT = Path(__file__).parents[2]
SUMMARY = re.compile(
    r"median error ([\d.]+|nan) %, 90th percentile ([\d.]+|nan) %, "
    r"rank correlation (-?[\d.]+|nan) over (\d+) rows \((\d+) not expressible\)"
)
ROWS, COMPLAINTS = read(OWN)
MATMUL = "on-tile matmul [N,16]x[16,16] on 1472 tiles, fp16 partials, no exchange"


def row(
    workload: str, options: str = "", metric: str = "throughput", unit: str = "TFLOP/s", **more
) -> Row:
    fields = {"chip": "Bow 1.85 GHz", "value": 1.0, **more}
    return Row(
        2, "source", "table", fields["chip"], workload, parameters(options), metric,
        fields["value"], unit,
    )  # fmt: skip


# The file of rows.


def test_own_rows_are_well_formed():
    assert not COMPLAINTS
    assert len(ROWS) > 500
    assert all(one.source and one.table for one in ROWS)


def test_lines_that_are_no_rows_are_reported(tmp_path):
    path = tmp_path / "rows.csv"
    good = "s,t,Bow,w,N=1,throughput,2.5,TFLOP/s"
    bad = ["s,t,Bow", "s,t,Bow,w,N=1,throughput,many,TFLOP/s", "s,t,Bow,w,,time,-1,s"]
    bad += ["s,t,Bow,,N=1,throughput,1,s", "s,t,Bow,w,N=1,throughput,1,s,too,many"]
    path.write_text("\n".join([",".join(COLUMNS), good, *bad]), encoding="utf-8")
    rows, complaints = read(path)
    assert [one.value for one in rows] == [2.5]
    assert [complaint.split(":")[0] for complaint in complaints] == [
        f"line {n}" for n in range(3, 8)
    ]


def test_a_file_without_a_column_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("source,table,chip\n", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the columns workload, parameters"):
        read(path)


# What texts say.


@pytest.mark.parametrize(
    ("text", "chip", "clock"),
    [
        ("Bow 1.85 GHz", BOW, 1.85e9),
        ("GC200", MK2, MK2.clock),
        ("GC2 1300 MHz", MK1, 1.3e9),
        ("not stated (Mk2 class)", MK2, MK2.clock),
    ],
)
def test_rows_name_their_chip_and_clock(text, chip, clock):
    found = chip_of(row("w", chip=text))
    assert (found.name, found.clock) == (chip.name, clock)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Mk2/Bow", "no chip, or several"),
        ("A100", "no chip, or several"),
        ("GC2 (software model, not hardware)", "not measured on hardware"),
    ],
)
def test_rows_without_a_single_chip_are_not_expressible(text, reason):
    with pytest.raises(NotExpressible, match=reason):
        chip_of(row("w", chip=text))


@pytest.mark.parametrize(
    ("workload", "options", "expected"),
    [
        (
            "ResNet-50 v1.5 training",
            "POD16;microbatch=22;GA=10;GBS=3520;replicas=16;1 IPU/replica",
            (RESNET, 16, 22, 10, 0, 1.0, 0),
        ),
        # 5120 / 64 = 80, and the largest divisor up to 22 is 20.
        ("ResNet-50 v1.5", "Pod64;framework=TF1;global batch=5120", (RESNET, 64, 20, 4, 0, 1.0, 0)),
        (
            "BERT-Large pre-training",
            "POD64;SL512 packed;8-stage pipeline x8 replicas;microbatch=2;GA=96;GBS=3072",
            (BERT_LARGE, 8, 2, 96, 512, 2.0, 8),
        ),
        ("BERT-Large Ph1 SL128", "Pod16;global batch=65280", (BERT_LARGE, 4, 8, 2040, 128, 1.0, 0)),
        (
            "BERT-Large Ph2 SL512 packed",
            "Pod16;global batch=8192",
            (BERT_LARGE, 4, 2, 512, 512, 2.0, 0),
        ),
        ("BERT-Base Ph2 SL384", "Pod16;global batch=16320", (BERT_BASE, 4, 8, 510, 384, 1.0, 0)),
    ],
)
def test_options_give_the_configuration_of_a_row(workload, options, expected):
    found = configuration(row(workload, options, unit="items/s"))
    assert found[:1] + found[2:8] == expected
    assert found.items == expected[1] * expected[2] * expected[3] * expected[5]


@pytest.mark.parametrize(
    ("workload", "options", "reason"),
    [
        ("ResNet-50 training", "POD16;38 epochs", "batch size"),
        ("ResNet-50 v1.5", "global batch=5120", "number of IPUs"),
        ("BERT-Large pre-training", "Pod16;global batch=64", "length of sequences"),
        ("BERT-Large Ph1 SL128 packed", "Pod16;global batch=54784", "sequences per pack"),
        ("BERT-Large Ph2 SL384", "Pod64;global batch=not recorded", "not given as a number"),
        ("BERT-Large Ph2 SL384", "Pod2;global batch=64", "fewer IPUs"),
        ("ResNet-50 v1.5", "Pod64;global batch=100", "not divisible"),
        (
            "ResNet-50 v1.5",
            "Pod64;0 IPUs/replica;global batch=100",
            "IPUs of a replica is no whole",
        ),
        ("ResNet-50 v1.5", "Pod16;microbatch=4;GA=1000000000", "larger than any"),
        ("BERT-Large SL0", "Pod16;global batch=64", "length of sequences is no whole"),
        ("BERT-Large SL128", "0-stage pipeline x2 replicas;GBS=64", "stages or replicas is no"),
        ("BERT-Large SL512 packed", "Pod16;microbatch=2;GA=8;GBS=0", "not above 0"),
    ],
)
def test_configurations_that_are_not_enough(workload, options, reason):
    with pytest.raises(NotExpressible, match=reason):
        configuration(row(workload, options, unit="items/s"))


@pytest.mark.parametrize("unit", ["tokens/s", "GB/s", "MB/s", "/s", "furlongs", ""])
def test_rates_of_something_else_are_no_throughput(unit):
    outcome = predict([row("BERT-Large SL128", "Pod16;global batch=65280", unit=unit)])
    assert not outcome.predictions
    assert "comprises is not given" in outcome.refused[0][1]


def test_blocks_of_bert_are_those_of_mlperf():
    # 0.05 x (230.23 x 3072 + 3e6) = 185,363, down to 175,000, which is 57 batches of 3072.
    assert convergence.block(3072) == 57 * 3072
    assert convergence.block(6912) == 33 * 6912


# Predictions.


@pytest.mark.parametrize("positions", [16, 96, 1000, 2048])
def test_on_tile_products_have_asymptote_of_chip(positions):
    """4 cycles for each row, and the fixed 331 cycles of the fit over the published series."""
    found = on_tile.predict(row(MATMUL, f"N={positions}", "tile cycles", "cycles"))
    assert found.value == pytest.approx(331.4 + 4 * positions, rel=0.03)


@pytest.mark.parametrize(
    ("words", "options", "types"),
    [
        ("fp16 partials", "", ("float16", "float16")),
        ("fp16 inputs, fp32 partials", "", ("float16", "float32")),
        ("half, float partials", "", ("float16", "float32")),
        ("fp32 partials", "dtype=float16", ("float16", "float32")),
        ("no exchange", "dtype=FP16;partials=fp32", ("float16", "float32")),
        ("no exchange", "dtype=float32", ("float32", "float32")),
        ("no exchange", "", ("float32", "float32")),
    ],
)
def test_types_are_read_from_words_of_a_row(words, options, types):
    assert types_of(row(f"on-tile matmul [N,16]x[16,16], {words}", options)) == types


def test_only_rows_of_fitted_chip_are_no_check():
    found = [on_tile.predict(row(MATMUL, "N=16", chip=chip)) for chip in ("Bow", "GC200")]
    assert [prediction.fitted for prediction in found] == [True, False]


def test_row_that_fails_does_not_stop_the_others(monkeypatch, capsys):
    def fails(one):
        if "n" not in one.parameters:
            raise ZeroDivisionError("of this row")
        return on_tile.predict(one)

    monkeypatch.setattr("measured.predict._PREDICTORS", (fails,))
    outcome = predict([row("strange"), row(MATMUL, "N=16")])
    assert len(outcome.predictions) == 1
    assert outcome.refused[0][1] == "the model fails with ZeroDivisionError"
    assert "of this row" in capsys.readouterr().err


def test_tiles_and_units_of_a_product_are_read():
    cycles = on_tile.predict(row(MATMUL, "N=640;tiles=736", "tile cycles", "cycles")).value
    rate = on_tile.predict(row(MATMUL, "N=640;tiles=736", unit="GFLOP/s")).value
    assert rate == pytest.approx(2 * 640 * 256 * 736 / (cycles / 1.85e9) / 1e9)


@pytest.mark.parametrize(
    ("workload", "options", "reason"),
    [
        (MATMUL, "tiles=4", "what N is"),
        (MATMUL, "N=some", "not given as a number"),
        (MATMUL, "N=0.5", "no whole number"),
        (MATMUL, "N=nan", "not given as a number"),
        (MATMUL, "N=16;tiles=inf", "not given as a number"),
        (MATMUL, "N=1e18", "larger than any"),
        (MATMUL.replace("[16,16]", "[16,0]"), "N=16", "no whole number from 1"),
        (MATMUL, "N=16;dtype=int32", "lacks"),
        ("elementwise add fp32", "values per tile", "number of values"),
        ("elementwise add fp32", "8 values over 0 tiles", "tiles is no whole number"),
        ("on-tile matmul of two matrices", "N=4", "shape of the matrix product"),
        ("on-tile matmul [N,16]x[32,16]", "N=4", "do not fit"),
        ("on-tile matmul [N,32]x[32,16], fp8", "N=4", "lacks"),
        ("elementwise add fp32", "many values", "number of values"),
        ("elementwise swap fp32", "8 values per tile", "not in the list"),
        ("3x3 library convolution stencil, image other", "dtype=half", "size of the image"),
        ("3x3 library convolution stencil, image leaf", "ipus=1", "type of the image"),
        ("a new program", "N=4", "no program"),
    ],
)
def test_rows_that_lack_something_are_listed_with_reason(workload, options, reason):
    outcome = predict([row(workload, options)])
    assert not outcome.predictions
    assert re.search(reason, outcome.refused[0][1])


@pytest.mark.parametrize(
    ("group", "limit"),
    [(on_tile.AMP, 0.2), (on_tile.ELEMENTWISE, 0.2), (library.CONVOLUTION, 0.3)],
)
def test_predictions_of_small_programs_meet_their_targets(group, limit):
    outcome = predict(one for one in ROWS if re.search("on-tile|elementwise|convolution", one.text))
    found = statistics([p for p in outcome.predictions if p.group == group])
    assert found.rows >= 3
    assert found.median <= limit


# Statistics and what is printed.


def test_spearman_is_the_correlation_of_ranks():
    one = np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(one, one**3) == pytest.approx(1)
    assert spearman(one, -one) == pytest.approx(-1)
    # Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: Pearson's correlation of those.
    expected = np.corrcoef([0, 1.5, 1.5, 3], [0, 1, 2, 3])[0, 1]
    assert spearman(np.array([1.0, 2.0, 2.0, 5.0]), one) == pytest.approx(expected)
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))


def test_statistics_of_errors_are_ratio_median_and_percentile():
    members = [Prediction(row("w", value=10.0), "g", BOW, value) for value in (9.0, 10.0, 13.0)]
    found = statistics(members)
    assert found.within == pytest.approx(2 / 3)
    assert (found.rows, found.ratio, found.median) == (3, 1.0, pytest.approx(0.1))
    assert found.percentile == pytest.approx(0.26)


def test_rates_are_ranked_as_times():
    assert units.seconds_per_item(4.0, row("w", unit="items/s"), BOW) == 0.25
    assert units.seconds_per_item(3.7e9, row("w", unit="cycles"), BOW) == 2
    assert units.seconds_per_item(5.0, row("w", unit="ms"), BOW) == pytest.approx(0.005)


@pytest.mark.parametrize("unit", ["items/s", "min"])
def test_rows_of_one_configuration_bound_predictions(unit):
    # One configuration, predicted as 100, was measured as 80, 100 and 120; another one once.
    members = [
        Prediction(row("w", value=value, unit=unit), "g", BOW, 100.0, configuration="c")
        for value in (80.0, 100.0, 120.0)
    ]
    other = Prediction(row("v", value=7.0, unit=unit), "g", BOW, 9.0)
    found = sorted(error for error, _ in distinct.spread([*members, other]))
    # 100 against each, whatever was predicted.
    assert found == pytest.approx([0, 0, 1 / 6, 0.25])
    doubled = [one._replace(value=200.0) for one in members]
    assert sorted(error for error, _ in distinct.spread(doubled)) == pytest.approx(found[1:])


@pytest.mark.parametrize("rows", [[], [row(MATMUL, "N=16", value=50.0), row("other")]])
def test_the_last_line_says_it_all(rows):
    last = report.text(predict(rows), malformed=1).splitlines()[-1]
    match = SUMMARY.fullmatch(last)
    assert match
    assert (int(match[4]), int(match[5])) == (len(rows) // 2, 1 + len(rows) // 2)


def test_the_page_says_what_is_calibrated():
    text = page.page(Outcome([Prediction(row(MATMUL, value=2.0), on_tile.AMP, BOW, 2.0)], []))
    assert "`compute_set_cycles`" in text
    assert "| matrix product on the tile | 1 | 1.00 | 0.0 % |" in text


def test_page_in_repository_equals_rows():
    text = (ROOT / "docs/accuracy.md").read_text(encoding="utf-8")
    match = SUMMARY.search(text)
    assert match
    assert int(match[4]) + int(match[5]) == len(ROWS)
    assert float(match[1]) <= 20
    assert float(match[3]) >= 0.9


@pytest.mark.process
def test_the_script_takes_other_rows(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [
        ",".join(COLUMNS),
        's,t,Bow,"on-tile matmul [N,16]x[16,16], fp16 partials",N=333,throughput,280,TFLOP/s',
        "s,t,Bow 1.85 GHz,elementwise add fp32,512 values per tile,time,0.6,us",
        "s,t,Bow,broken",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/accuracy.py", "--rows", path],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "line 4: expected 8 fields" in done.stderr
    match = SUMMARY.fullmatch(done.stdout.splitlines()[-1])
    assert (match[4], match[5]) == ("2", "1")
    missing = subprocess.run(
        [sys.executable, ROOT / "benchmarks/accuracy.py", "--rows", tmp_path / "none.csv"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert missing.returncode == 2
    assert "none.csv" in missing.stderr
    assert SUMMARY.fullmatch(missing.stdout.splitlines()[-1])
