"""Profiles, cycles, registers and checked runs of Poplar programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorflow_ipu.cli import main
from tensorflow_ipu.frontends.poplar import profile

LIBRARIES = ("pva", "pvti", "poplin")

RESULTS = {
    # Of Mk2: 38 cycles for a compute set, 100 for a sync, 115 + 12 / 4 for the exchange.
    "cycles": """\
1000 3
once: [6256    0]
twice: [12512     0]
none: [1 0]
stamp: [18768     0]
""",
    # 64 * 128 * 32 multiply-adds on two tiles: 16 a cycle in float, 64 in half. 38 cycles for a
    # compute set, 100 for a sync, 115 and a cycle for 4 bytes of half of the operands' bytes.
    "products": f"cycles: [{8192 + 253 + 6144}     0]\ncycles: [{2048 + 253 + 3072}    0]\n",
    "registers": "{2,6,4}\nbits: [11]\nbits: [6]\nbits: [11]\nbits: [0 0]\n",
    "outside": "runs\n",
    "no_trap": "runs\n",
}

VERTEX = "application_runtime_error: Vertex 'Faulty' (number 2) on tile 1 in compute set 'copy' "
ERRORS = {
    "throws": f"{VERTEX}threw: fault\n",
    "division": f"{VERTEX}had a division by zero.\n",
    "overflow": f"{VERTEX}had an overflow.\n",
    "cpu": "profiling_disabled: A CPU has no profile",
    "value": "invalid_option: The engine option 'debug.instrument' is one of: true, false;",
    "memory": "Tile 7: 800000 bytes used but tiles only have 638976 bytes of memory.\n",
}


@pytest.mark.parametrize("name", RESULTS)
def test_programs_print(run_poplar: Callable[..., str], name: str) -> None:
    assert run_poplar("profiles.cpp", name, libraries=LIBRARIES) == RESULTS[name]


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_fault(run_poplar: Callable[..., str], name: str) -> None:
    assert ERRORS[name] in run_poplar("profiles.cpp", name, libraries=LIBRARIES)


def test_checked_run_names_the_field(
    run_poplar: Callable[..., str],
    poplar_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(poplar_environment, "TENSORFLOW_IPU_POPLAR_CHECKED", "1")
    expected = f"{VERTEX}wrote behind the end of its field 'out', which has 8 bytes.\n"
    assert run_poplar("profiles.cpp", "outside", libraries=LIBRARIES) == expected


def test_profile_has_memory_and_cycles(run_poplar: Callable[..., str]) -> None:
    output = run_poplar("profiles.cpp", "report", libraries=LIBRARIES)
    for text in ("Number of vertices:              2", "Memory Usage:", "Total:  ", "72 B"):
        assert text in output
    assert "Execute copy:                  6,256 cycles from 6,256" in output
    # Tile 0 has 4 + 1 floats, tile 1 has 3, which it reads from tile 0.
    assert output.endswith("20 12 received 12\n1 2 4 2 2 2\ncopy Execute 1 first 3\n")


def test_options_write_a_profile(
    run_poplar: Callable[..., str],
    poplar_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "report")}
    monkeypatch.setitem(poplar_environment, "POPLAR_ENGINE_OPTIONS", json.dumps(options))
    file = str(tmp_path / "report" / profile.FILE)
    assert run_poplar("profiles.cpp", "files", file, libraries=LIBRARIES) == "1472 1\n"
    assert (tmp_path / "report" / "debug.cbor").stat().st_size > 0
    assert main.main(["report", str(tmp_path / "report")]) == 0
    assert "Total cycles (modelled)" in capsys.readouterr().out
    assert main.main(["report", file, "--format", "json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert sum(written["compilation"]["memory"]["byTile"]["variables"]) == 32
    saved = run_poplar("profiles.cpp", "memory", libraries=LIBRARIES)
    assert saved.endswith(f"Profile saved to: {file}\n")


def test_other_files_are_no_profiles(tmp_path: Path) -> None:
    assert profile.read(str(tmp_path)) is None
    (tmp_path / profile.FILE).write_text("{}")
    assert profile.read(str(tmp_path)) is None
