"""The folder with headers, libraries and CMake files of Poplar, and the variables that name it."""

from __future__ import annotations

import shlex
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

#: Of the folder with Poplar, beside the packages of an environment.
FOLDER = "tensorflow_ipu_sdk"


def folder() -> Path:
    """Returns the folder with `include/`, `lib/` and `cmake/`."""
    return Path(sysconfig.get_path("platlib")) / FOLDER


def includes() -> list[Path]:
    """Returns the folders in which compilers look for headers: `<Vertex.hpp>` is one of them."""
    include = folder() / "include"
    return [include, include / "poplar"]


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of a shell that compiles and runs programs for Poplar.

    Args:
        environment: the variables of the shell so far; paths are put before those.

    Returns:
        Values by name.
    """
    sdk = folder()
    commands = Path(sys.executable).parent
    paths = {
        "CPLUS_INCLUDE_PATH": sdk / "include",
        "LIBRARY_PATH": sdk / "lib",
        "LD_LIBRARY_PATH": sdk / "lib",
        "CMAKE_PREFIX_PATH": sdk / "cmake",
        "PATH": commands,
    }
    result = {name: before(environment.get(name, ""), str(path)) for name, path in paths.items()}
    result["POPLAR_SDK_ENABLED"] = str(sdk)
    result["TENSORFLOW_IPU_POPC"] = str(commands / "popc")
    return result


def before(paths: str, path: str) -> str:
    """Returns a list of paths with one more in front, once.

    Args:
        paths: the paths, with colons between them.
        path: the path that comes first.
    """
    others = [other for other in paths.split(":") if other and other != path]
    return ":".join([path, *others])


def exports(environment: Mapping[str, str]) -> str:
    """Returns the lines for `eval` in a shell.

    Args:
        environment: as of `variables`.
    """
    return "\n".join(
        f"export {name}={shlex.quote(value)}" for name, value in variables(environment).items()
    )
