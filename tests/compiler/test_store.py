"""Tests of Executables as files."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler import store
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.listing import ArgumentSpec


def _executable() -> Executable:
    library = function_pb2.FunctionDefLibrary()
    library.function.add().signature.name = "main"
    return Executable(
        id="cluster_0.0",
        name="cluster_0",
        fingerprint="abc",
        generation=1,
        ordinal=0,
        replicas=2,
        ipus_used=1,
        arguments=(ArgumentSpec("x", tf.float32, (2, 3), True),),
        results=(tf.TensorSpec([3], tf.int32),),
        library=library,
        entry="main",
        on_device=True,
        sources=None,
    )


def test_round_trip(tmp_path):
    executable = _executable()
    path = tmp_path / "e.poplar_exec"
    store.save(executable, path)
    description, library = store.load(path)
    assert description == store.describe(executable)
    assert description["arguments"] == [
        {"name": "x", "dtype": "float32", "shape": [2, 3], "is_variable": True}
    ]
    assert library == executable.library
    assert [file.name for file in tmp_path.iterdir()] == ["e.poplar_exec"]


def test_serialisation_writes_program_and_description(tmp_path):
    store.serialize(_executable(), str(tmp_path / "new"))
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["abc.ipu_bin", "abc.json"]
    assert json.loads((tmp_path / "new" / "abc.json").read_text())["replicas"] == 2


def test_disk_cache_knows_what_was_saved(tmp_path):
    cache = store.DiskCache(str(tmp_path / "cache"))
    with cache.locked("abc") as known:
        assert not known
        store.save(_executable(), cache.path("abc"))
    with cache.locked("abc") as known:
        assert known


def test_a_foreign_file_is_refused(tmp_path):
    path = tmp_path / "abc.poplar_exec"
    path.write_bytes(b"not a zip")
    with pytest.raises(ValueError, match="is not an executable of tensorflow_ipu"):
        store.load(path)
