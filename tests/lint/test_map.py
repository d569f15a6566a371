"""Tests the map of packages and modules."""

from __future__ import annotations

import subprocess
import sys

from tests.support.checkout.repository import ROOT

MAP = ROOT / "lint" / "map.py"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MAP), *arguments], check=False, capture_output=True, text=True
    )


def test_map_names_every_module():
    printed = [line.split() for line in _run("planner").stdout.splitlines()]
    modules = [path for path in (ROOT / "tensorflow_ipu" / "planner").rglob("*.py")]
    named = sorted(words[0].rstrip("/") for words in printed)
    expected = [
        path.parent.name if path.name == "__init__.py" else path.stem
        for path in modules
        if path.name != "__init__.py" or path.read_text(encoding="utf-8")
    ]
    assert named == sorted(expected)
    assert all(len(words) > 1 for words in printed), "a module has no docstring"


def test_map_refuses_an_unknown_package():
    process = _run("nothing")
    assert process.returncode == 1
    assert "received nothing" in process.stdout
