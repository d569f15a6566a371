"""Loggers, files of lines, definitions of ops, errors: what is around sessions."""

from __future__ import annotations

import json
import re

import popart
import pytest


def test_loggers_show_what_their_level_lets_through(capsys, monkeypatch, tmp_path):
    session, ir = popart.getLogger("session"), popart.getLogger("ir")
    popart.getLogger().setLevel("OFF")
    session.setLevel("INFO")
    for logger in (session, ir):
        logger.debug("not shown")
        logger.info("shown")
    line = capsys.readouterr().err
    assert re.fullmatch(r"\S+ popart:session \d+\.\d+ I: shown\n", line)
    session.setLevel("no such level")
    session.critical("off")
    assert capsys.readouterr().err == ""
    session.setLevel("WARN")
    monkeypatch.setenv("POPART_LOG_DEST", str(tmp_path / "log"))
    session.warn("one")
    session.error("two")
    assert re.findall(r"([A-Z]): (\w+)\n", (tmp_path / "log").read_text()) == [
        ("W", "one"),
        ("E", "two"),
    ]
    popart.getLogger().setLevel("WARN")


def test_lines_of_nodes_go_to_a_file(tmp_path):
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path))
    builder = popart.Builder()
    builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [1])])
    popart.closePoplarDebugInfo()
    popart.closePoplarDebugInfo()
    last = json.loads(path.read_text())["contexts"][-1]["location"]
    assert last["fileName"] == __file__ and last["functionName"].startswith("test_lines")
    with pytest.raises(popart.popart_exception, match="Unknown format"):
        popart.initializePoplarDebugInfo(str(path), "xml")


def test_definitions_say_what_ops_take():
    found = popart.getSupportedOperationsDefinition(False)
    key = next(
        key for key in found if (key.domain, key.type, key.version) == ("ai.onnx", "Conv", 11)
    )
    conv = found[key]
    assert [part.name for part in conv.inputs] == ["X", "W", "B"]
    types = conv.inputs[0].supportedTensors
    assert popart.DataType.FLOAT16 in types and not conv.inputs[0].constant
    assert re.fullmatch(conv.attributes["group"].supportedValuesRegex, "4")
    with pytest.raises(TypeError):
        popart.OpDefinition()
    assert key in popart.getSupportedOperations(False)
    names = {entry.type for entry in popart.getUnsupportedOperations(10)}
    assert "QLinearConv" in names and "Conv" not in names


def test_errors_have_the_bases_of_the_original():
    error = popart.poplar_recoverable_runtime_error
    assert issubclass(error, popart.poplar_system_runtime_error)
    assert error.recoveryAction is popart.RecoveryAction.IPU_RESET
    assert issubclass(popart.popart_runtime_error, popart.popart_exception)
    assert not issubclass(popart.poplar_exception, popart.popart_exception)
    assert isinstance(popart.packageHash(), str)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        popart.DataFlow("1", ["x"])
