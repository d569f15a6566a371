"""Tests that files which comments and docstrings name are there."""

from __future__ import annotations

import re

import pytest

from tests.support.checkout import repository

# `compiler/trace.py`, `hooks.py`: a path, or the end of one.
_FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|cc|h))`")
_NATIVE = [path for path in (repository.ROOT / "native").rglob("*") if path.suffix in (".cc", ".h")]
_OTHERS = [
    path
    for folder in ("docs", "stubs", "benchmarks", "build_backend", "examples", "tests")
    for path in (repository.ROOT / folder).rglob("*.py")
]
PATHS = [
    "/" + path.relative_to(repository.ROOT).as_posix()
    for path in (*repository.modules(), *_NATIVE, *_OTHERS)
]
# Files of users and of tools, as examples.
_EXAMPLES = {"setup.py", "file.py", "train.py", "program.py", "conftest.py"}


@pytest.mark.parametrize("folder", repository.FOLDERS)
def test_files_that_docstrings_and_comments_name_are_there(folder):
    missing = {
        (path.relative_to(repository.ROOT).as_posix(), name)
        for path in (repository.ROOT / folder).rglob("*.py")
        for name in _FILE.findall(path.read_text(encoding="utf-8"))
        if name not in _EXAMPLES and not any(known.endswith("/" + name) for known in PATHS)
    }
    assert missing == set()
