"""Executables of Poplar in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def test_executable_runs_in_another_process(run_poplar: Callable[..., str], tmp_path: Path) -> None:
    file = str(tmp_path / "executable")
    direct = run_poplar("executables.cpp", "run", file)
    # The second run of the vertex multiplies by 10 and adds 2, then the host doubles.
    assert direct.splitlines()[:3] == ["104 144 124 164 "] * 3
    assert direct.endswith("application_runtime_error: three\n")
    run_poplar("executables.cpp", "write", file)
    assert run_poplar("executables.cpp", "read", file) == direct


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda data: b"PK" + data[2:], "the data are no executable of tensorflow_ipu"),
        (lambda data: data[:20], "the data are no executable of tensorflow_ipu"),
        (lambda data: data[:16] + b"\xff" + data[17:], "has format 255"),
        (lambda data: data[:5000], "damaged or not complete"),
        (lambda data: data[:99] + bytes([data[99] ^ 1]) + data[100:], "damaged or not complete"),
    ],
    ids=["foreign", "short", "version", "cut", "flipped"],
)
def test_other_data_are_refused(
    run_poplar: Callable[..., str],
    tmp_path: Path,
    change: Callable[[bytes], bytes],
    text: str,
) -> None:
    file = tmp_path / "executable"
    run_poplar("executables.cpp", "write", str(file))
    file.write_bytes(change(file.read_bytes()))
    output = run_poplar("executables.cpp", "read", str(file))
    assert output.startswith("poplar_error: Executable::deserialize: ")
    assert text in output
