"""The build backend: setuptools, with TensorFlow's headers found or asked for.

The native library needs the headers of TensorFlow. pip builds in an environment of its own, and
would download TensorFlow a second time (475 MB) for it. So TensorFlow is only a requirement of the
build where the environment that is installed into has none; its folder is known even from there.
"""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path
from typing import Any

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

_REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements.txt"

prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_wheel


def _requirement() -> str:
    """Returns the requirement for TensorFlow."""
    lines = _REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("tensorflow"))


def _installed_tensorflow() -> Path | None:
    """Returns the folder of a fitting TensorFlow in the environment that is installed into."""
    wanted = re.search(r">=(\d+)\.(\d+)", _requirement())
    folder = Path(sysconfig.get_path("purelib")) / "tensorflow"
    header = folder / "include" / "tensorflow" / "core" / "public" / "version.h"
    if wanted is None or not header.exists():
        return None
    text = header.read_text(encoding="utf-8")
    found = re.findall(r"#define TF_(?:MAJOR|MINOR)_VERSION (\d+)", text)
    return folder if tuple(found) == wanted.groups() else None


def _requires() -> list[str]:
    return [] if _installed_tensorflow() else [_requirement()]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Returns what building a wheel needs (PEP 517)."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_requires()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Returns what an editable installation needs for building (PEP 660)."""
    return get_requires_for_build_wheel(config_settings)


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Builds a wheel (PEP 517) and returns the name of the file."""
    installed = _installed_tensorflow()
    if installed is not None:
        os.environ.setdefault("TF_DIR", str(installed))  # native/Makefile reads it
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel of an editable installation (PEP 660) and returns the name of the file.

    It holds the native library and the .pth file, which leads to the checkout.
    """
    os.environ["TENSORFLOW_IPU_EDITABLE"] = "1"  # setup.py reads it
    return build_wheel(wheel_directory, config_settings, metadata_directory)
