"""Tests of Executables as files."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
import zipfile
from pathlib import Path

import pytest
import tensorflow as tf
from absl import logging
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.api.config import DeviceConnectionType, IPUConfig
from tensorflow_ipu.compiler import cache, store
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.listing.program_listing import ArgumentSpec
from tensorflow_ipu.configs import flags
from tensorflow_ipu.runtime import system
from tensorflow_ipu.util import private_files
from tests.support.programs.compiled_programs import default_system
from tests.support.reports import profiled


def _executable() -> Executable:
    library = function_pb2.FunctionDefLibrary()
    library.function.add().signature.name = "main"
    return Executable(
        id="cluster_0.0",
        name="cluster_0",
        fingerprint="abc",
        ordinal=0,
        replicas=2,
        ipus_used=1,
        arguments=(ArgumentSpec("x", tf.float32, (2, 3), True),),
        results=(tf.TensorSpec([3], tf.int32),),
        library=library,
        entry="main",
        on_device=True,
        system=default_system(),
        sources=None,
    )


def test_a_saved_executable_comes_back_as_it_was(tmp_path):
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


def test_serialization_writes_program_and_description(tmp_path):
    store.serialize(_executable(), str(tmp_path / "new"))
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["abc.ipu_bin", "abc.json"]
    assert json.loads((tmp_path / "new" / "abc.json").read_text())["replicas"] == 2


def test_disk_cache_knows_what_was_saved(tmp_path):
    disk = store.DiskCache(str(tmp_path / "cache"))
    with disk.locked("abc") as known:
        assert not known
        disk.save(_executable())
    with disk.locked("abc") as known:
        assert known
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_cache_that_may_only_be_read_is_read(tmp_path, monkeypatch, warnings):
    disk = store.DiskCache(str(tmp_path))
    disk.save(_executable())
    monkeypatch.setattr(os, "open", _read_only)
    with disk.locked("abc") as known:
        assert known
    assert warnings == []


def test_what_killed_processes_left_is_removed(tmp_path):
    disk = store.DiskCache(str(tmp_path))
    with private_files.replacing(disk.path("abc")):
        (partial,) = private_files.partials(disk.path("abc"))
    partial.touch()
    (tmp_path / ".other.poplar_exec.x.partial").touch()
    with disk.locked("abc"):
        pass
    assert private_files.partials(disk.path("abc")) == []
    assert (tmp_path / ".other.poplar_exec.x.partial").exists()


def _foreign(path: Path, **members: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)


def _of_another_program(path: Path) -> None:
    store.save(_executable(), path)


#: What can be in the place of an executable, by what is wrong with it.
DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"not a zip"),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "one byte": lambda path: path.write_bytes(path.read_bytes().replace(b"PK", b"P", 1)),
    "another archive": lambda path: _foreign(path, a_txt="a"),
    "no library": lambda path: _foreign(path, executable_json='{"format": 1}'),
    "no functions": lambda path: _foreign(path, executable_json='{"format": 1}', library_pb="?"),
    "a list": lambda path: _foreign(path, executable_json="[]", library_pb=""),
    "deep": lambda path: _foreign(path, executable_json="[" * 100_000, library_pb=""),
    "another format": lambda path: _foreign(path, executable_json='{"format": 2}', library_pb=""),
    "another program": _of_another_program,
    "pickle": lambda path: path.write_bytes(b"cos\nsystem\n(S'exit 1'\ntR."),
}


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "another program"])
def test_a_damaged_or_foreign_file_is_refused(tmp_path, damage):
    path = tmp_path / "abc.poplar_exec"
    store.save(_executable(), path)
    DAMAGES[damage](path)
    with pytest.raises(ValueError, match="abc.poplar_exec is not an executable of tensorflow_ipu"):
        store.load(path)


def test_any_damage_is_found_or_harmless(tmp_path):
    path = tmp_path / "abc.poplar_exec"
    store.save(_executable(), path)
    whole, expected = path.read_bytes(), store.load(path)
    draw = random.Random(1)
    cut = [whole[:length] for length in range(0, len(whole), 7)]
    flipped = []
    for _ in range(500):
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        flipped.append(bytes(changed))
    refused = 0
    for content in cut + flipped:
        path.write_bytes(content)
        try:
            assert store.load(path) == expected
        except (ValueError, OSError):
            refused += 1
    assert refused > len(cut + flipped) / 2


@pytest.fixture
def warnings(monkeypatch):
    """The warnings that are logged."""
    found: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: found.append(text % args))
    return found


def _read_only(*_, **__):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), "folder")


class TestProgramsRun:
    """A program runs with any fault of the cache, after one warning."""

    @pytest.fixture
    def folder(self, tmp_path):
        return tmp_path / "cache"

    @pytest.fixture
    def run(self, folder, monkeypatch):
        """Compiles and runs a program as a new process would; returns its fingerprint."""
        monkeypatch.setenv(flags.VARIABLE, f"--executable_cache_path={folder}")
        flags._reset_for_tests()

        def run() -> str:
            system.reset_ipu_configuration()
            profiled.configure()
            profiled.run()
            return cache.executables()[-1].fingerprint

        yield run
        flags._reset_for_tests()

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_file_is_compiled_again(self, run, folder, warnings, damage):
        path = folder / f"{run()}.poplar_exec"
        assert store.load(path)
        DAMAGES[damage](path)
        warnings.clear()
        run()
        (warning,) = warnings
        assert str(path) in warning and "The program is compiled" in warning
        assert store.load(path)[0]["fingerprint"] == path.stem
        run()
        assert len(warnings) == 1
        assert not list(folder.glob(".*"))

    def test_folder_replacing_a_file_is_warned_about(self, run, folder, warnings):
        path = folder / f"{run()}.poplar_exec"
        path.unlink()
        path.mkdir()
        run()
        assert len(warnings) == 2  # it is not read, and not replaced
        assert all(str(path) in warning for warning in warnings)

    def test_programs_run_where_the_folder_cannot_be_made(self, run, folder, warnings):
        folder.write_text("a file")
        run()
        run()
        (warning,) = warnings
        assert f"Executables cannot be written to {folder}" in warning

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
    @pytest.mark.parametrize("step", ["replace", "mkdir", "fdopen"])
    def test_on_disk_that_is_full_or_read_only(
        self, run, folder, warnings, monkeypatch, step, number
    ):
        def fail(*_, **__):
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            run()
        (warning,) = warnings
        assert os.strerror(number) in warning and str(folder) in warning
        assert not list(folder.glob("*.poplar_exec")) and not list(folder.glob(".*"))
        run()
        assert list(folder.glob("*.poplar_exec"))

    def test_but_pre_compilation_has_to_be_saved(self, run, folder):
        folder.write_text("a file")
        run()
        config = IPUConfig()
        config.auto_select_ipus = 1
        config.device_connection.type = DeviceConnectionType.PRE_COMPILE
        config.device_connection.version = "ipu2"
        config.configure_ipu_system()
        with pytest.raises(tf.errors.FailedPreconditionError, match="executable_cache_path"):
            profiled.run()
