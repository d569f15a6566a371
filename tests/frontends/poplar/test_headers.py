"""Public headers compile alone, as C++11, without a warning."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.checkout.repository import ROOT

INCLUDE = ROOT / "native" / "poplar" / "include"
LIBRARIES = ("gcl", "popops", "poputil", "pva", "pvti")
NEWER = {"poputil/OptionParsing.hpp": "c++17"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_headers_compile_alone(library: str, tmp_path: Path) -> None:
    headers = sorted((INCLUDE / library).rglob("*.hpp"))
    names = [str(path.relative_to(INCLUDE)) for path in headers]
    for standard in {NEWER.get(name, "c++11") for name in names}:
        sources = []
        for i, name in enumerate(names):
            if NEWER.get(name, "c++11") == standard:
                sources.append(tmp_path / f"{standard}{i}.cpp")
                sources[-1].write_text(f"#include <{name}>\n#include <{name}>\n", "utf-8")
        command = ["g++", f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-pedantic"]
        command += ["-Werror", f"-I{INCLUDE}", *map(str, sources)]
        subprocess.run(command, check=True, env=os.environ)
