"""Pictures of predicted against measured values."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from measured import judged, picture
from measured.predict import Outcome
from measured.prediction import Prediction
from measured.rows import Row

from tensorflow_ipu.configs.chips import BOW, MK1

SVG = "{http://www.w3.org/2000/svg}"


def prediction(measured, predicted, unit="TFLOP/s", chip=BOW):
    found = Row(2, "s", "t", chip.title, "matmul", {"n": "8"}, "throughput", measured, unit)
    return Prediction(found, "g", chip, predicted)


def drawn(members):
    outcome = Outcome(members, [])
    (picture_of,) = picture.render(outcome, judged.judged(outcome)).values()
    return ET.fromstring(picture_of)


def test_each_row_is_a_point():
    root = drawn([prediction(10.0 * n, 11.0 * n) for n in range(1, 8)])
    points = [one for one in root.iter(f"{SVG}circle") if one.get("r") == "3"]
    assert len(points) == 7
    assert root.find(f"{SVG}title").text.endswith("7 rows, median error 10.0 %")


def test_equal_values_lie_on_the_line():
    root = drawn([prediction(value, value) for value in (1.0, 10.0, 100.0)])
    (line,) = [one for one in root.iter(f"{SVG}line") if one.get("class") == "equal"]
    x1, y1, x2, y2 = (float(line.get(name)) for name in ("x1", "y1", "x2", "y2"))
    for point in root.iter(f"{SVG}circle"):
        if point.get("r") == "3":
            part = (float(point.get("cx")) - x1) / (x2 - x1)
            assert float(point.get("cy")) == pytest.approx(y1 + part * (y2 - y1), abs=0.2)


def test_rows_of_several_units_are_drawn_as_seconds():
    root = drawn([prediction(10.0, 11.0), prediction(5.0, 4.0, unit="us")])
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert "measured, s, or s for one GB, teraflop or item" in texts


def test_the_noise_floor_is_a_band():
    members = [prediction(value, 10.0)._replace(configuration="c") for value in (10.0, 10.4)]
    names = [one.get("class") for one in drawn(members).iter(f"{SVG}polygon")]
    assert names == ["close", "noise"]
    assert judged.noise_floor([prediction(1.0, 1.0)]) is None


def test_groups_that_are_gone_lose_their_picture(tmp_path):
    (tmp_path / "accuracy_old.svg").write_text("<svg/>", encoding="utf-8")
    picture.write({"accuracy_new.svg": "<svg/>"}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["accuracy_new.svg"]


def test_groups_have_their_own_files():
    members = [prediction(10.0, 11.0), prediction(10.0, 11.0, chip=MK1)]
    members[1] = members[1]._replace(row=members[1].row._replace(chip="GC2"))
    outcome = Outcome(members, [])
    assert sorted(picture.render(outcome, judged.judged(outcome))) == [
        "accuracy_dense_products_mk2_and_bow.svg",
        "accuracy_products_mk1_library_mapping.svg",
    ]
