"""Writes docs/map.md from the first lines of all modules: `python docs/make_map.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PATH = Path(__file__).with_name("map.md")
ROOT = PATH.parents[1]

_HEAD = """\
# Map

What each folder is for, and each file in it. Made by `docs/make_map.py` from the first line of each
file, so `grep` finds the same words. [architecture.md](architecture.md) says how the parts work
together, and [CONTRIBUTING.md](../CONTRIBUTING.md) which files a change of some kind needs.

The folders `configs/`, `ops/`, `keras_layers/`, `estimators/` and `frontends/` are links in
`tensorflow_ipu/`: import them from there.
"""

# Top folders in the order of the page: a reader begins with what users call.
_PACKAGES = ("tensorflow_ipu", "ops", "keras_layers", "estimators", "frontends", "configs")
_NATIVE = {
    "native/plugin": "What TensorFlow loads: the device type, and passes over graphs.",
    "native/engine": "Launches programs: replicas, variables, feeds' lifetimes, events, Python.",
    "native/engine/feeds": "Infeeds and outfeeds: queues between the host and the programs.",
    "native/kernels": "The ops of the device and their kernels.",
    "native/include/tensorflow_ipu": "The header for custom operations.",
    "native/sanitizers": "Runs programs under the sanitizers of g++.",
}
_OTHERS = {
    "benchmarks": "Measures speed against plain TensorFlow, and the model of the chip.",
    "build_backend": "The backend that pip builds the package with.",
    "docs": "These pages, and the scripts that write the generated ones. `docs/sphinx_ext/` makes "
    "the API reference and the links of the site.",
    "examples": "Programs to read and run.",
    "stubs": "What type checkers know of names that no file stands for.",
    "tests": "Tests, in the folders of what they test. `tests/support/` has what they share, "
    "`tests/repository/` checks of all files, `tests/whole_programs/` and `tests/programs/` whole "
    "programs.",
}


def render() -> str:
    """Returns the page."""
    parts = [_HEAD]
    for top in _PACKAGES:
        parts += [_package(folder) for folder in _folders(ROOT / top)]
    parts += [_native(folder, line) for folder, line in _NATIVE.items()]
    others = "".join(f"| `{folder}/` | {line} |\n" for folder, line in _OTHERS.items())
    parts.append("## Other folders\n\n| folder | what it is for |\n| --- | --- |\n" + others)
    return "\n".join(parts)


def _folders(top: Path) -> list[Path]:
    """Returns a folder and the packages in it, each before those inside it. Links are left out."""
    inner = sorted(path.parent for path in top.rglob("__init__.py"))
    return [folder for folder in inner if folder.is_relative_to(top)]


def headline(path: Path) -> str:
    """Returns the first sentence or line of the docstring of a Python file, without its period.

    Args:
        path: the file.
    """
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n", 1)[0].strip().removesuffix(".")


def _comment(path: Path) -> str:
    """Returns the first sentence of the comment that a file of C++ or JavaScript begins with."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    text = " ".join(lines)
    return re.split(r"(?<=[.:])\s", text, maxsplit=1)[0].rstrip(".:")


def _table(rows: list[tuple[str, str]]) -> str:
    lines = [f"| `{name}` | {line} |\n" for name, line in rows]
    return "| file | what is in it |\n| --- | --- |\n" + "".join(lines)


def _package(folder: Path) -> str:
    name = folder.relative_to(ROOT).as_posix()
    files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    rows = [(path.name, headline(path)) for path in files if not path.name.endswith("_pb2.py")]
    rows += [(path.name, _comment(path)) for path in sorted(folder.glob("*.js"))]
    text = f"## `{name}/`\n\n{headline(folder / '__init__.py')}.\n"
    return text + ("\n" + _table(rows) if rows else "")


def _native(name: str, line: str) -> str:
    """Describes a folder of C++: a header and its source are one row."""
    files = sorted((ROOT / name).glob("*.h")) + sorted((ROOT / name).glob("*.cc"))
    rows: dict[str, tuple[str, str]] = {}
    for path in files:
        shown = f"{path.stem}.h, .cc" if path.stem in rows else path.name
        first = rows.get(path.stem, ("", _comment(path)))[1]
        rows[path.stem] = (shown, first)
    return f"## `{name}/`\n\n{line}\n\n" + _table(sorted(rows.values()))


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
