"""The table of layers and stages, line by line."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tests.support.models import keras_pipelines
from tests.support.models.keras_pipelines import MODELS, dense


def printed(model: tf.keras.Model, line_length: int | None = None) -> list[str]:
    lines: list[str] = []
    model.print_pipeline_stage_assignment_summary(line_length, lines.append)
    return lines


@pytest.mark.parametrize(("kind", "width"), [("nested", 89), ("sequential", 60), ("subclass", 89)])
@pytest.mark.parametrize("line_length", [None, 121])
def test_the_table_has_the_width_asked_for(kind: str, width: int, line_length: int | None) -> None:
    with keras_pipelines.strategy(1).scope():
        lines = printed(MODELS[kind](), line_length)
    width = line_length or width
    assert lines[0] == f'Model: "{kind}"'
    assert lines[1] == "_" * width
    assert lines[3] == lines[-1] == "=" * width
    assert {len(line) for line in lines if '"' not in line} == {width}
    starts = [lines[2].index(title) for title in ("Input", "Pipeline") if title in lines[2]]
    assert starts == ([width // 2] if kind == "sequential" else [width * 4 // 10, width * 8 // 10])


def test_nested_models_have_rows_of_their_own() -> None:
    with keras_pipelines.strategy(1).scope():
        inputs = tf.keras.Input((4,), name="in")
        with PipelineStage(0):
            inner = tf.keras.Sequential([dense(4, 1, name="one")], name="inner")
            x = dense(4, 3, name="zero")(inputs)
        x = inner(x)
        with PipelineStage(1):
            x = dense(4, 2, name="two")(x)
            outputs = tf.keras.layers.Add(name="sum")([x, inputs])
        lines = printed(tf.keras.Model(inputs, outputs, name="outer"), 50)
    row = "{:20}{:20}{:10}".format
    assert lines == [
        'Model: "outer"',
        "_" * 50,
        "Layer (type) (node  Input Layers        Pipeline S",
        "=" * 50,
        row("zero (Dense) (0)", "in", "0"),
        "=" * 50,
        'Nested Model: "inner"',
        "-" * 50,
        row("one (Dense)", "", "0"),
        "=" * 50,
        row("two (Dense) (0)", "inner", "1"),
        "_" * 50,
        row("sum (Add) (0)", "two", "1"),
        row("", "in", ""),
        "=" * 50,
    ]


def test_sequential_model_has_a_row_for_each_layer(capsys: pytest.CaptureFixture[str]) -> None:
    with keras_pipelines.strategy(1).scope():
        MODELS["sequential"]().print_pipeline_stage_assignment_summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "Layer (type)".ljust(30) + "Pipeline Stage".ljust(30)
    assert [line.split()[0] for line in lines[4::2]][::2] == ["a", "b"]
    assert [line.split()[-1] for line in lines[4::2]] == ["0", "0", "1", "2"]
    assert lines[5::2] == ["_" * 60] * 3 + ["=" * 60]


def test_what_is_too_long_is_cut_off() -> None:
    with keras_pipelines.strategy(1).scope(), PipelineStage(0):
        model = tf.keras.Sequential([dense(4, 1, name="a_long_name")])
        lines = printed(model, 20)
    assert lines[4] == "a_long_na " + "0".ljust(10)
