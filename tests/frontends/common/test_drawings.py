"""Drawings of graphs at checkpoints, of PopXL and of PopART."""

from __future__ import annotations

import numpy as np
import popart
import popxl
import pytest
from popxl import ops


def build(folder, **options):
    """Makes a program with two checkpoints, and a session of it; returns the options."""
    ir = popxl.Ir()
    for name, value in options.items():
        setattr(ir.session_options, name, value)
    assert ir._pb_ir.getSessionOptions().dotChecks == options.get("dotChecks", set())
    with ir.main_graph, popxl.name_scope("scope"):
        x = popxl.variable(np.ones(2, np.float32), name="x")
        y = x + 1
        ir.dot_checkpoint("First", save_dir=folder)
        ops.host_store(popxl.d2h_stream((2,), popxl.float32), ops.relu(y))
        ir.dot_checkpoint("second")
    popxl.Session(ir)
    return ir.session_options


FIRST, SECOND, LAST = "First_main.dot", "second_main.dot", "FINAL_main.dot"


@pytest.mark.parametrize(
    ("variable", "checks", "expected"),
    [
        (None, None, {FIRST, SECOND, LAST}),
        ("", None, set()),
        ("final", None, {LAST}),
        ("FIRST:SECOND", None, {FIRST, SECOND}),
        ("first", {"FINAL"}, {FIRST, LAST}),
        (None, {"ALL"}, {FIRST, SECOND, LAST}),
    ],
)
def test_checkpoints_write_what_is_active(variable, checks, expected, tmp_path, monkeypatch):
    monkeypatch.delenv("POPART_DOT_CHECKS", raising=False)
    if variable is not None:
        monkeypatch.setenv("POPART_DOT_CHECKS", variable)
    folder = tmp_path / "made" / "dots"
    options = build(folder, dotOpNames=True, **({"dotChecks": checks} if checks else {}))
    assert {path.name for path in folder.iterdir()} == expected
    assert options.logDir == str(folder)
    if FIRST in expected:
        text = (folder / FIRST).read_text()
        assert text.count(" [shape=box, ") == 1 and '"Add.scope"' in text
    if LAST in expected:
        assert 'label="Relu.scope"' in (folder / LAST).read_text()


def test_sessions_of_models_draw_each_named_checkpoint(tmp_path, monkeypatch):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    y = builder.aiOnnx.relu([builder.aiOnnx.abs([x])])
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    options = popart.SessionOptions()
    options.logDir = str(tmp_path)
    builder.aiOnnx.neg([x])
    for variable, expected in (("", 0), ("FWD0:FINAL", 2), ("FWD0:FWD1:FINAL", 3), ("ALL", 6)):
        monkeypatch.setenv("POPART_DOT_CHECKS", variable)
        flow = popart.DataFlow(1, [y])
        popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
        assert len(list(tmp_path.glob("*.dot"))) == expected
    text = (tmp_path / "FINAL_main.dot").read_text()
    assert 'n0 [shape=box, label="Abs"];' in text and "n0 -> n1" in text
    assert "Neg" not in text and "Neg" in (tmp_path / "FWD0_main.dot").read_text()
