"""The supported releases of TensorFlow: their Python versions and requirements.

setup.py, the build backend and the Makefile run this file by its path. So it imports nothing of the
package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Release(NamedTuple):
    """A minor release of TensorFlow.

    Attributes:
        tensorflow: its number, such as "2.18".
        pythons: the oldest and the newest version of Python that it has wheels for.
        numpy: which NumPy it takes.
        protobuf: which protobuf it takes.
    """

    tensorflow: str
    pythons: tuple[str, str]
    numpy: str
    protobuf: str

    @property
    def requires_python(self) -> str:
        """Returns the versions of Python, as metadata of a package has them."""
        oldest, newest = self.pythons
        major, minor = _numbers(newest)
        return f">={oldest},<{major}.{minor + 1}"

    def has_python(self, python: tuple[int, ...]) -> bool:
        """Returns whether there are wheels for a version of Python, such as (3, 12)."""
        oldest, newest = self.pythons
        return _numbers(oldest) <= python[:2] <= _numbers(newest)

    def requirements(self) -> list[str]:
        """Returns the requirements of tensorflow_ipu for this release."""
        needed = [f"tensorflow=={self.tensorflow}.*"]
        if _numbers(self.tensorflow) > (2, 15):  # whose `tf.keras` is Keras 3
            needed.append(f"tf_keras=={self.tensorflow}.*")
        needed += [f"numpy{self.numpy}", f"protobuf{self.protobuf}"]
        needed += [_ONNX, "absl-py>=1,<3", "packaging>=21,<27", "pyelftools>=0.29,<1"]
        return [*needed, "shtab>=1.7,<2"]


# 1.19 needs a newer ml_dtypes than TensorFlow 2.15 to 2.17 accept, and its models of ops differ
# from the ones that PopART's are compared with.
_ONNX = "onnx>=1.16,<1.19"

# Of TensorFlow itself; other packages begin with the same word.
_DISTRIBUTION = re.compile(r"tensorflow(?:_cpu|_cpu_aws|_rocm)?-([^-]+)\.dist-info")

_OLD_PROTOBUF = ">=3.20.3,!=4.21.0,!=4.21.1,!=4.21.2,!=4.21.3,!=4.21.4,!=4.21.5"

#: From the oldest to the newest; the bounds are TensorFlow's own metadata. Where it has no upper
#: one, it is the next major release.
RELEASES = (
    Release("2.15", ("3.9", "3.11"), ">=1.23.5,<2", f"{_OLD_PROTOBUF},<5"),
    Release("2.16", ("3.9", "3.12"), ">=1.26,<2", f"{_OLD_PROTOBUF},<5"),
    Release("2.17", ("3.9", "3.12"), ">=1.26,<2", f"{_OLD_PROTOBUF},<5"),
    Release("2.18", ("3.9", "3.12"), ">=1.26,<2.1", f"{_OLD_PROTOBUF},<6"),
    Release("2.19", ("3.9", "3.12"), ">=1.26,<2.2", f"{_OLD_PROTOBUF},<6"),
    Release("2.20", ("3.9", "3.13"), ">=1.26,<3", ">=5.28,<8"),
    Release("2.21", ("3.10", "3.13"), ">=1.26,<3", ">=6.31.1,<8"),
)


def of_version(version: str) -> Release | None:
    """Returns the release that a version of TensorFlow belongs to.

    Args:
        version: such as "2.18.1".

    Returns:
        The release, or None if it is not supported.
    """
    minor = ".".join(version.split(".")[:2])
    return next((release for release in RELEASES if release.tensorflow == minor), None)


def installed_version(folder: Path) -> str:
    """Returns the version of a TensorFlow that is not loaded.

    Its headers and modules leave that to the options of their compiler.

    Args:
        folder: the folder of the package `tensorflow`.

    Returns:
        The version, such as "2.18.1", or "" if there is no distribution of it beside the folder.
    """
    for distribution in sorted(folder.parent.glob("tensorflow*-*.dist-info")):
        match = _DISTRIBUTION.fullmatch(distribution.name)
        if match:
            return match[1]
    return ""


def newest_for(python: tuple[int, ...]) -> Release | None:
    """Returns the newest release for a version of Python.

    Args:
        python: such as `sys.version_info`.

    Returns:
        The release, or None if none has wheels for it.
    """
    return next((release for release in reversed(RELEASES) if release.has_python(python)), None)


def default_for(python: tuple[int, ...]) -> Release | None:
    """Returns the default release of a checkout: the oldest that Python has, else the newest.

    Only the oldest has all of Estimators.

    Args:
        python: such as `sys.version_info`.

    Returns:
        The release, or None if none has wheels for it.
    """
    return RELEASES[0] if RELEASES[0].has_python(python) else newest_for(python)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
