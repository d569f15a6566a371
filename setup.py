"""Builds the package: Python from the folders of the root, and the native library with make."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import Command, Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent

# For libraries of custom operations; ops/custom_ops.py looks for them in both places.
HEADERS = ROOT / "native" / "include"

# What type checkers and editors know of names that no file stands for (stubs/make_stubs.py).
STUBS = ROOT / "stubs" / "packages"
# mypy takes them from the path. Others take what is in TensorFlow's own folder: the names are below
# `tensorflow`, of which they have their own idea. There they are modules; nothing imports them, as
# the finder comes first.
TENSORFLOW_STUBS = STUBS / "tensorflow-stubs"
# A folder with a link to the package and nothing else, for tools that look for it in a checkout.
CHECKOUT = ROOT / "stubs" / "checkout"

# What pages of reports are made of.
PAGE = "tensorflow_ipu.profiler.export.page"

# Set by build_backend/ when pip installs with -e.
EDITABLE = "TENSORFLOW_IPU_EDITABLE" in os.environ
# Set by build_backend/ for wheels: the version of TensorFlow that is built against. Source archives
# are for none.
TENSORFLOW = os.environ.get("TENSORFLOW_IPU_TENSORFLOW", "")

# Every interpreter runs this when it starts, as it is in tensorflow_ipu.pth. Importing the package
# makes the names `tensorflow.python.ipu.*` known (tensorflow_ipu/import_hook/finder.py). Without
# the package, say because a checkout was deleted, the interpreter starts as if nothing was
# installed.
START = "try:\n    import tensorflow_ipu\nexcept ImportError:\n    pass\n"

# In an editable installation the package stays in the checkout. Only this one import looks there:
# with the checkout on sys.path, `import ops` or `import tests` would find our folders too.
START_IN_CHECKOUT = (
    f"sys.path.insert(0, {str(ROOT)!r})\n{START}finally:\n    sys.path.remove({str(ROOT)!r})\n"
)


def packages() -> list[str]:
    """Returns the names of all packages."""
    inner = find_packages(str(ROOT / "tensorflow_ipu"))
    return ["tensorflow_ipu", *(f"tensorflow_ipu.{name}" for name in inner)]


def metadata() -> dict[str, Any]:
    """Returns version, requirements and Pythons: for one TensorFlow, or for all that there are."""
    source = (ROOT / "tensorflow_ipu" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    version = match[1] if match else ""
    releases = runpy.run_path(str(ROOT / "tensorflow_ipu/import_hook/versions/releases.py"))
    release = releases["of_version"](TENSORFLOW)
    if release is not None:
        return {
            "version": f"{version}+tf{release.tensorflow}",
            "install_requires": release.requirements(),
            "python_requires": release.requires_python,
        }
    oldest, newest = releases["RELEASES"][0], releases["RELEASES"][-1]
    every = oldest._replace(pythons=(oldest.pythons[0], newest.pythons[1]))
    return {"version": version, "python_requires": every.requires_python}


class Build(build):
    """Builds from nothing, so that no file of an earlier build gets into the wheel."""

    sub_commands = [*build.sub_commands, ("build_native", None)]

    def run(self) -> None:
        """Removes the last build and makes a new one."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildPython(build_py):
    """Copies packages, headers and stubs, unless the checkout is used in place; adds a .pth file.

    The paths in that file are for tools that look for types: programs import nothing from there.
    """

    def run(self) -> None:
        """Copies and writes."""
        target = Path(self.build_lib)
        if EDITABLE:
            start, paths = START_IN_CHECKOUT, (str(CHECKOUT), str(STUBS))
        else:
            super().run()
            shutil.copytree(HEADERS, target / "tensorflow_ipu" / "include")
            shutil.copytree(STUBS, target / "tensorflow_ipu_stubs")
            start, paths = START, ("tensorflow_ipu_stubs",)
        self._add_to_tensorflow(target)
        lines = [f"import sys; exec({start!r})", *paths]
        (target / "tensorflow_ipu.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")

    @staticmethod
    def _add_to_tensorflow(target: Path) -> None:
        """Writes our modules below `tensorflow` into the folder that the wheel adds to it."""
        for stub in sorted(TENSORFLOW_STUBS.rglob("*.pyi")):
            name = stub.relative_to(TENSORFLOW_STUBS)
            # TensorFlow has a module of this name; only a stub can say that it has one more.
            known = name.as_posix() == "python/__init__.pyi"
            if known or len(name.parts) > 2:
                path = target / "tensorflow" / (name if known else name.with_suffix(".py"))
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(stub, path)


class BuildNative(Command):
    """Makes libtensorflow_ipu.so, where `import tensorflow` looks for plugins, and Poplar."""

    description = "build the native library"
    user_options: list[tuple[str, str, str]] = []

    def initialize_options(self) -> None:
        """Declares the options."""
        self.build_lib = ""

    def finalize_options(self) -> None:
        """Takes the build folder from `build`."""
        self.build_lib = self.get_finalized_command("build").build_lib

    def run(self) -> None:
        """Runs make; objects stay in build/native for the next time."""
        if shutil.which("make") is None:
            raise SystemExit("Building tensorflow_ipu needs make and g++: apt install make g++")
        plugins = Path(self.build_lib).resolve() / "tensorflow-plugins"
        command = ["make", "-C", str(ROOT / "native"), f"-j{os.cpu_count()}"]
        # An installation is never instrumented, whatever the environment asks make for.
        command += [f"PYTHON={sys.executable}", f"OUT={plugins}", "SANITIZE="]
        environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
        subprocess.run(command, check=True, env=environment)
        sdk = Path(self.build_lib).resolve() / "tensorflow_ipu_sdk"
        command = ["make", "-C", str(ROOT / "native" / "poplar"), f"-j{os.cpu_count()}"]
        command += [f"PYTHON={sys.executable}", f"OUT={sdk}"]
        subprocess.run(command, check=True, env=environment)


class Wheel(bdist_wheel):
    """Names the wheel: for this platform and for every Python.

    The native library calls the interpreter through functions that it is given (interpreter.h), so
    it is linked with none. Which Pythons a TensorFlow has is in the metadata.
    """

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tags of Python, its binary interface and the platform."""
        return ("py3", "none", super().get_tag()[2])


class NativeDistribution(Distribution):
    """A distribution for one platform, though setuptools compiles nothing."""

    def has_ext_modules(self) -> bool:
        """Says that the wheel is for this platform only."""
        return True


setup(
    packages=packages(),
    package_data={"": ["*.proto", "*.pyi", "py.typed"], PAGE: ["*.css", "*.html", "*.js"]},
    cmdclass={
        "bdist_wheel": Wheel,
        "build": Build,
        "build_py": BuildPython,
        "build_native": BuildNative,
    },
    distclass=NativeDistribution,
    **metadata(),
)
