from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining.stage import PipelineStage
from tests import keras_pipelines
from tests.keras_pipelines import MODELS, dense


def printed(model: tf.keras.Model, line_length: int | None = None) -> list[str]:
    lines: list[str] = []
    model.print_pipeline_stage_assignment_summary(line_length, lines.append)
    return lines


@pytest.mark.parametrize(("kind", "width"), [("nested", 89), ("sequential", 60), ("subclass", 89)])
@pytest.mark.parametrize("line_length", [None, 120])
def test_widths(kind: str, width: int, line_length: int | None) -> None:
    with keras_pipelines.strategy(1).scope():
        lines = printed(MODELS[kind](), line_length)
    width = line_length or width
    assert lines[0] == f'Model: "{kind}"'
    assert lines[1] == lines[-1] == "_" * width
    assert lines[3] == "=" * width
    assert max(map(len, lines)) == width


def test_functional_and_nested() -> None:
    with keras_pipelines.strategy(1).scope():
        inputs = tf.keras.Input((4,), name="in")
        with PipelineStage(0):
            inner = tf.keras.Sequential([dense(4, 1, name="one")], name="inner")
        x = inner(inputs)
        with PipelineStage(1):
            x = dense(4, 2, name="two")(x)
        outputs = tf.keras.layers.Add(name="sum")([x, inputs])
        lines = printed(tf.keras.Model(inputs, outputs))
    assert [line.split() for line in (lines[2], *lines[4:-1])] == [
        "Layer (type) (node index) Input Layers Pipeline Stage".split(),
        "inner (Sequential) (0) in".split(),
        "one (Dense) 0".split(),
        "two (Dense) (0) inner 1".split(),
        "sum (Add) (0) two, in None".split(),
    ]
    assert lines[5].startswith("  one")
    starts = [lines[2].index(title) for title in ("Input", "Pipeline")]
    assert [lines[6].index("inner"), lines[6].index("1")] == starts


def test_sequential(capsys: pytest.CaptureFixture[str]) -> None:
    with keras_pipelines.strategy(1).scope():
        MODELS["sequential"]().print_pipeline_stage_assignment_summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == "Layer (type) Pipeline Stage".split()
    assert [line.split()[0] for line in lines[4:-1]][::2] == ["a", "b"]
    assert [line.split()[-1] for line in lines[4:-1]] == ["0", "0", "1", "2"]


def test_long_names_go_on_below() -> None:
    with keras_pipelines.strategy(1).scope(), PipelineStage(0):
        model = tf.keras.Sequential([dense(4, 1, name="a_long_name")])
        lines = printed(model, 20)
    assert [line.split() for line in lines[-3:-1]] == [["a_long_name", "0"], ["(Dense)"]]
