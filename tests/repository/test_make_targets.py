"""Tests that each target of the Makefile installs the imports of its programs."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.checkout.repository import ROOT

pytest.importorskip("tomllib", reason="needs Python 3.11")
requirements = pytest.importorskip("packaging.requirements")

# Target -> the programs that it runs: files, or folders with all files in them.
PROGRAMS = {
    "demo": ["examples/digits.py"],
    "test": ["tests/conftest.py", "tests/support"],
    "stress": ["tests/conftest.py", "tests/stress", "tests/support"],
    "fuzz": ["tests/conftest.py", "tests/fuzz"],
    "test-sanitized": ["native/sanitizers/run.py", "tests/native", "tests/plugin"],
    "test-killed": ["tests/support/programs/kills.py"],
    "bench": ["benchmarks"],
    "matrix": ["tests/matrix/__main__.py"],
    "lint": ["lint"],
    "map": ["lint/map.py"],
    "docs": ["docs/conf.py", "docs/sphinx_ext"],
    "docs-links": ["docs/conf.py", "docs/sphinx_ext"],
    "stubs": ["stubs/make_stubs.py"],
}
# Made from this repository, or by it.
OURS = {"tests", "docs", "sphinx_ext", "benchmarks", "examples", "measured", "tensorflow_ipu"}
# Modules that stand for the package, or that its import serves.
SERVED = {"popart", "popart_core", "popxl", "popxl_addons", "pva", "keras", "horovod"}
SERVED |= {"ipu_tensorflow_addons", "popdist"}


@functools.cache
def distributions() -> Mapping[str, list[str]]:
    """The distributions that have each module."""
    return importlib.metadata.packages_distributions()


def targets() -> dict[str, tuple[set[str], str]]:
    """The extras that each target installs, and its commands."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for name, needs, recipe in re.findall(
        r"^([\w-]+):([^=\n]*)\n((?:\t.*\n)*)", text, re.MULTILINE
    ):
        found[name] = set(re.findall(r"\.with-(\w+)", needs)), recipe
    return found


TARGETS = targets()


def test_named_tests_exist():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\btests/[\w/.]+", text))
    assert not {name for name in named if not (ROOT / name).exists()}


def extras() -> dict[str, list[str]]:
    import tomllib

    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return data["project"]["optional-dependencies"]


def installed(names: set[str]) -> set[str]:
    """The distributions that some extras bring, with all that TensorFlow brings."""
    found: set[str] = set()
    waiting = ["setuptools", *(importlib.metadata.requires("tensorflow_ipu") or [])]
    waiting += [each for name in names for each in extras()[name]]
    while waiting:
        requirement = requirements.Requirement(waiting.pop())
        name = _plain(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        try:
            waiting += importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def imported(path: Path, seen: set[Path]) -> Iterator[tuple[str, Path]]:
    """Yields the modules that a file imports when it is loaded, and those that these import."""
    if path in seen or not path.is_file():
        return
    seen.add(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            root = name.partition(".")[0]
            if root not in OURS:
                yield root, path
                continue
            for base in (ROOT, ROOT / "docs"):
                place = base.joinpath(*name.split("."))
                yield from imported(place.with_suffix(".py"), seen)
                yield from imported(place / "__init__.py", seen)


def _plain(name: str) -> str:
    """The usual form of the name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _imports(target: str) -> Iterator[tuple[str, Path]]:
    """Yields the imports of a target's programs: module and importing file."""
    seen: set[Path] = set()
    for program in PROGRAMS[target]:
        place = ROOT / program
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            for root, where in imported(path, seen):
                beside = any(
                    (file.parent / f"{root}{end}").exists()
                    for file in (path, where)
                    for end in ("", ".py")
                )
                if root not in sys.stdlib_module_names and root not in SERVED and not beside:
                    yield root, where


def test_every_target_that_runs_programs_is_checked() -> None:
    running = {
        name
        for name, (_, recipe) in TARGETS.items()
        if re.search(r"pytest|sphinx-build|\$\(PYTHON3?\) (?!build_backend)", recipe)
    }
    assert running - {"native", "test-newest"} == set(PROGRAMS)


@pytest.mark.parametrize("target", PROGRAMS)
def test_a_target_installs_the_package(target: str) -> None:
    names, recipe = TARGETS[target]
    assert names or "$(PYTHON3)" in recipe, "its programs import tensorflow_ipu"


@pytest.mark.parametrize("target", PROGRAMS)
def test_a_target_installs_what_its_programs_import(target: str) -> None:
    names, recipe = TARGETS[target]
    alone = "$(PYTHON3)" in recipe  # no environment of ours
    brought = set() if alone else installed(names)
    modules = distributions()
    missing = set()
    for root, where in _imports(target):
        known = {_plain(name) for name in modules.get(root, [root])}
        if not known & brought:
            missing.add((root, str(where.relative_to(ROOT))))
    assert not missing, f"make {target} installs {sorted(names) or 'no extra'}"


def test_a_night_runs_all_long_targets(tmp_path: Path) -> None:
    # These two would call make again, which a dry run does, too.
    command = ["make", "-n", "-o", "native", "-o", "test-sanitized", f"VENV={tmp_path}", "nightly"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for words in ("tests.support.programs.kills", "tests/stress --large", "--fuzz-cases 100000"):
        assert words in process.stdout


def test_docs_need_no_extra_for_tests() -> None:
    assert TARGETS["docs"][0] == {"docs"}
    assert "pytest" in installed({"docs"})
