"""Prints the package's requirements for this Python in pip's format, for the Makefile.

python build_backend/requirements.py [TENSORFLOW], such as 2.18
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def table() -> dict[str, Any]:
    """Returns the table of releases; importing the package is not possible before it is built."""
    return runpy.run_path(str(ROOT / "tensorflow_ipu/import_hook/versions/releases.py"))


def supported(releases: dict[str, Any]) -> str:
    """Returns which TensorFlow there is for which Python, for messages."""
    rows = releases["RELEASES"]
    return ", ".join(f"{row.tensorflow} (Python {' to '.join(row.pythons)})" for row in rows)


def main(arguments: list[str]) -> int:
    """Prints the requirements; returns the exit code."""
    releases = table()
    python = sys.version_info[:2]
    wanted = arguments[0] if arguments else ""
    release = releases["of_version"](wanted) if wanted else releases["default_for"](python)
    if release is None or not release.has_python(python):
        print(
            f"There is no TensorFlow {wanted or 'for tensorflow_ipu'} for Python "
            f"{python[0]}.{python[1]}. Take one of these: {supported(releases)}.",
            file=sys.stderr,
        )
        return 1
    print("\n".join(release.requirements()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
