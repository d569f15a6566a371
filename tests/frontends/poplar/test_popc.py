"""The command `popc`."""

from __future__ import annotations

import ctypes
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
        (["made.gp"], "made.gp: not a .gp file of this popc"),
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


class _Table(ctypes.Structure):
    """The table of vertices of a library: poplar/core/CodeletTable.hpp."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("types", ctypes.c_void_p),
        ("number", ctypes.c_size_t),
    )


def _vertices(library: Path) -> int:
    """Returns the number of vertex types in a `.gp` file."""
    get_table = ctypes.CDLL(str(library)).poplar_codelet_table
    get_table.restype = ctypes.POINTER(_Table)
    return int(get_table().contents.number)


def test_files_and_sources_are_joined(tmp_path: Path) -> None:
    sources = [tmp_path / f"{name}.cpp" for name in "ABC"]
    for source in sources:
        source.write_text(
            "#include <poplar/Vertex.hpp>\n"
            f"class {source.stem} : public poplar::Vertex {{\n"
            " public:\n  poplar::InOut<float> x;\n  void compute() { *x += 1; }\n};\n"
        )
    two, again, three = (str(tmp_path / f"{name}.gp") for name in ("two", "again", "three"))
    assert popc.main([*map(str, sources[:2]), "-O0", "-o", two]) == 0
    # What two files have is in their union once.
    assert popc.main([two, str(sources[1]), "-O0", "-o", again]) == 0
    assert popc.main([again, two, str(sources[2]), "-O0", "-o", three]) == 0
    assert [_vertices(Path(path)) for path in (two, again, three)] == [2, 2, 3]
