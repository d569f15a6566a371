"""Makes a folder that has the package as it is installed: `python stubs/link_sources.py`.

Some folders of the root are subpackages of `tensorflow_ipu`. At run time a finder knows that. Tools
that only read files (mypy, jedi, editors) do not, so this makes `build/typing/tensorflow_ipu` of
links to all of them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # where the package is built, it is not installed

from tensorflow_ipu import _api  # noqa: E402

FOLDER = ROOT / "build" / "typing"


def link(folder: Path = FOLDER) -> None:
    """Makes the links anew.

    Args:
        folder: where the package is to be found.
    """
    shutil.rmtree(folder, ignore_errors=True)  # with mypy's cache, which is of these links
    package = folder / "tensorflow_ipu"
    package.mkdir(parents=True)
    inside = [path for path in (ROOT / "tensorflow_ipu").iterdir() if path.name != "__pycache__"]
    for path in (*inside, *(ROOT / name for name in _api.FOLDERS)):
        (package / path.name).symlink_to(path, target_is_directory=path.is_dir())


if __name__ == "__main__":
    link()
