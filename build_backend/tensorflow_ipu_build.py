"""The build backend: setuptools, with TensorFlow's headers found or asked for.

The native library needs the headers of TensorFlow. pip builds in an environment of its own, and
would download TensorFlow a second time (600 MB) for it. So TensorFlow is only a requirement of the
build where the environment that is installed into has none; its folder is known even from there.

A wheel is for the release of TensorFlow that it is built against. setup.py, which knows that only
from here, puts it into version and requirements.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

import requirements
from setuptools import build_meta
from setuptools.build_meta import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_RELEASES = requirements.table()
_version = _RELEASES["installed_version"]
_HEADER = Path("include", "tensorflow", "core", "public", "version.h")


def _is_supported(folder: Path) -> bool:
    """Returns whether the TensorFlow in a folder has headers, and is one to build against."""
    return (folder / _HEADER).exists() and _RELEASES["of_version"](_version(folder)) is not None


def _installed_tensorflow() -> Path | None:
    """Returns the folder of a fitting TensorFlow in the environment that is installed into."""
    folder = Path(sysconfig.get_path("purelib")) / "tensorflow"
    return folder if _is_supported(folder) else None


def _tensorflow() -> Path:
    """Returns the folder of the TensorFlow to build against.

    The one that TF_DIR names, else that of the environment, else that of pip's own environment for
    the build.
    """
    named = os.environ.get("TF_DIR")
    folder = Path(named) if named else _installed_tensorflow()
    if folder is None:
        spec = importlib.util.find_spec("tensorflow")
        found = spec.submodule_search_locations if spec is not None else None
        folder = Path(found[0]) if found else None
    if folder is None or not _is_supported(folder):
        here = "none here" if folder is None else f"{_version(folder) or 'unknown'} in {folder}"
        raise SystemExit(
            "Building tensorflow_ipu needs one of these releases of TensorFlow: "
            f"{requirements.supported(_RELEASES)}. There is {here}."
        )
    return folder


def _requires() -> list[str]:
    """Returns the requirement for TensorFlow where the environment has none."""
    if os.environ.get("TF_DIR") or _installed_tensorflow():
        return []
    newest = _RELEASES["newest_for"](sys.version_info)
    if newest is None:
        raise SystemExit(
            f"There is no TensorFlow for tensorflow_ipu and Python {sys.version.split()[0]}. "
            f"Take one of these: {requirements.supported(_RELEASES)}."
        )
    return [newest.requirements()[0]]


def _set_release() -> None:
    """Passes TensorFlow's folder and version to setup.py and native/Makefile."""
    folder = _tensorflow()
    os.environ["TF_DIR"] = str(folder)
    os.environ["TENSORFLOW_IPU_TENSORFLOW"] = _version(folder)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Returns the build requirements of a wheel (PEP 517)."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_requires()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Returns the build requirements of an editable installation (PEP 660)."""
    return get_requires_for_build_wheel(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Writes the metadata of the wheel (PEP 517) and returns the name of its folder."""
    _set_release()
    return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Any = None
) -> str:
    """Writes the metadata of an editable installation (PEP 660), equal to a wheel's."""
    return prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Builds a wheel (PEP 517) and returns the name of the file."""
    _set_release()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel of an editable installation (PEP 660) and returns the name of the file.

    It holds the native library and the .pth file, which leads to the checkout.
    """
    os.environ["TENSORFLOW_IPU_EDITABLE"] = "1"  # setup.py reads it
    return build_wheel(wheel_directory, config_settings, metadata_directory)
