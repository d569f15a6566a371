"""The command `popc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorflow_ipu.frontends.poplar import popc


def test_version_is_the_third_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert popc.main(["--version"]) == 0
    assert capsys.readouterr().out.split()[2] == "3.4.0"


def test_missing_compiler_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.cpp").touch()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert popc.main([str(tmp_path / "a.cpp")]) == 1
    assert "'no-such-compiler' is not installed" in capsys.readouterr().err


def test_output_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.cpp").touch()
    (tmp_path / "file").touch()
    assert popc.main([str(tmp_path / "a.cpp"), "-o", str(tmp_path / "file" / "a.gp")]) == 1
    assert f"popc: error: {tmp_path / 'file'}" in capsys.readouterr().err


def test_flags_go_to_the_compiler() -> None:
    _, options = popc.parse(
        ["-O2", "-I", "folder", "-DX=1", "--target=ipu2", "a.cpp", "-o", "a.gp"]
    )
    assert options.flags == ("-O2", "-I", "folder", "-DX=1")
    assert options.inputs == (Path("a.cpp"),)
    assert options.output == Path("a.gp")


@pytest.mark.parametrize(
    "arguments, text",
    [
        ([], "no input files"),
        (["nowhere.cpp"], "nowhere.cpp: No such file or directory"),
        (["made.gp"], "made.gp: .gp files cannot be joined"),
    ],
)
def test_wrong_inputs_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.gp").touch()
    assert popc.main(arguments) == 1
    assert text in capsys.readouterr().err
