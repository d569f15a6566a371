"""The folders of this repository, for tests about all of its files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "tensorflow_ipu"

# Folders of the root that are subpackages of tensorflow_ipu, where they are links.
LINKED = sorted(path.name for path in PACKAGE.iterdir() if path.is_symlink())

# Every folder with code of the package. `rglob` follows no links.
FOLDERS = ["tensorflow_ipu", *LINKED]


def modules() -> list[Path]:
    """Returns the Python files of the package, each once, by their places in the checkout."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
