"""Loggers, files of lines, definitions of ops, and errors."""

from __future__ import annotations

import re
import typing

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
    assert set(popart.getSupportedOperations(False)) < set(popart.getSupportedOperations(True))
    assert found.keys() < popart.getSupportedOperationsDefinition(True).keys()
    names = {entry.type for entry in popart.getUnsupportedOperations(10)}
    assert "QLinearConv" in names and "Conv" not in names


def test_builders_say_which_opsets_they_return():
    annotation = popart.Builder.__getattr__.__annotations__["return"]
    assert typing.get_origin(annotation) is typing.Union
    opsets = {getattr(popart, name) for name in dir(popart) if name.startswith("AiOnnxOpset")}
    assert opsets < set(annotation.__args__)


def test_errors_have_the_bases_of_the_original():
    error = popart.poplar_recoverable_runtime_error
    assert issubclass(error, popart.poplar_system_runtime_error)
    assert error.recoveryAction is popart.RecoveryAction.IPU_RESET
    assert issubclass(popart.popart_runtime_error, popart.popart_exception)
    assert not issubclass(popart.poplar_exception, popart.popart_exception)
    assert isinstance(popart.packageHash(), str)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        popart.DataFlow("1", ["x"])


def test_locations_are_made_by_position_and_by_name():
    storage, tiles = popart.TensorStorage.OffChip, popart.TileSet.IO
    sharding, domain = popart.ReplicatedTensorSharding.On, popart.CommGroup()
    whole = popart.TensorLocation(storage, tiles, tiles, sharding, domain)
    tile_sets = {"loadTileSet": tiles, "storageTileSet": tiles}
    rest = {"replicatedTensorSharding": sharding, "shardingDomain": domain}
    assert popart.TensorLocation(storage=storage, **tile_sets, **rest) == whole
    assert popart.TensorLocation(storage, tiles, storageTileSet=tiles, **rest) == whole
    short = popart.TensorLocation(storage, replicatedTensorSharding=sharding)
    assert short == popart.TensorLocation(storage, sharding)
    for args, given in (((tiles,), {}), ((storage,), {"storage": storage}), ((), tile_sets)):
        with pytest.raises(TypeError, match="incompatible constructor arguments"):
            popart.TensorLocation(*args, **given)


def test_settings_of_locations_take_a_storage():
    storage = popart.TensorStorage.OffChip
    named = popart.TensorLocationSettings(storage=storage, minElementsForOffChip=4)
    assert named == popart.TensorLocationSettings(storage, 4)
    assert named.location == popart.TensorLocation(storage)
    for given in ({"location": popart.TensorLocation(), "storage": storage}, {"location": 1}):
        with pytest.raises(TypeError, match="TensorLocationSettings takes a"):
            popart.TensorLocationSettings(**given)
