"""Building and installing: wheel, editable installation, source archive, and the native Makefile.

The native library is a text file here, put in its place by a Makefile of the test: what compiles
is tested by whoever installs.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import tensorflow_ipu
from tests.support.checkout import repository

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "tensorflow-plugins/libtensorflow_ipu.so"
POPLAR = "tensorflow_ipu_sdk/lib/libpoplar.so"
STUBS = ROOT / "stubs" / "packages"
# What editors find below TensorFlow, where only the finder finds it at run time.
IN_TENSORFLOW = {
    "tensorflow/python/__init__.pyi",
    *(
        f"tensorflow/{path.relative_to(STUBS / 'tensorflow-stubs').with_suffix('.py').as_posix()}"
        for folder in ("python/ipu", "compiler/plugin")
        for path in (STUBS / "tensorflow-stubs" / folder).rglob("*.pyi")
    ),
}
TENSORFLOW = ".".join(metadata.version("tensorflow").split(".")[:2])
FAKE_MAKEFILE = "all:\n\tmkdir -p $(OUT) && echo library > $(OUT)/libtensorflow_ipu.so\n"
FAKE_POPLAR_MAKEFILE = "all:\n\tmkdir -p $(OUT)/lib && echo library > $(OUT)/lib/libpoplar.so\n"
IMPORT_CONFIGS = (
    "import site, sys\n"
    "site.addsitedir(sys.argv[1])\n"
    "from tensorflow_ipu.configs import chips\n"
    "print(chips.__file__, 'tensorflow' in sys.modules, *sys.path)\n"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the repository, with a native library that takes no time to build."""
    copy = tmp_path_factory.mktemp("packaging") / "checkout"
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "*.cc")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=unwanted)
    (copy / "native" / "Makefile").write_text(FAKE_MAKEFILE)
    (copy / "native" / "poplar" / "Makefile").write_text(FAKE_POPLAR_MAKEFILE)
    return copy


def call_backend(run_python, source, hook, argument):
    """Calls a hook of the build backend, as pip does, and returns its result."""
    process = run_python(
        "import json, sys\n"
        "sys.path.insert(0, 'build_backend')\n"
        "import tensorflow_ipu_build\n"
        f"print(json.dumps(tensorflow_ipu_build.{hook}({argument!r})))\n",
        cwd=source,
    )
    return json.loads(process.stdout.splitlines()[-1])


def unpack_wheel(run_python, source, hook, target):
    """Builds a wheel and unpacks it; returns the names of its files."""
    target.mkdir()
    name = call_backend(run_python, source, hook, str(target))
    with zipfile.ZipFile(target / name) as wheel:
        wheel.extractall(target / "site-packages")
        return wheel.namelist()


def files_without_metadata(names):
    return {name for name in names if ".dist-info/" not in name}


BUILD_WHEEL = (
    "import sys\n"
    "sys.path.insert(0, 'build_backend')\n"
    "import tensorflow_ipu_build\n"
    "print(tensorflow_ipu_build.build_wheel({!r}))"
)


def expected_modules():
    """The Python files of the root folders, as they are to be installed."""
    for path in repository.modules():
        name = path.relative_to(ROOT).as_posix()
        yield name if name.startswith("tensorflow_ipu/") else f"tensorflow_ipu/{name}"


def test_a_wheel_has_all_modules_and_stubs(run_python, checkout, tmp_path):
    names = unpack_wheel(run_python, checkout, "build_wheel", tmp_path / "wheel")
    modules = {name for name in names if name.endswith(".py")}
    assert modules == {*expected_modules(), *(n for n in IN_TENSORFLOW if n.endswith(".py"))}
    stubs = {path.relative_to(STUBS).as_posix() for path in STUBS.rglob("*") if path.is_file()}
    assert {f"tensorflow_ipu_stubs/{name}" for name in stubs} <= set(names)
    assert "tensorflow_ipu/py.typed" in names
    assert {LIBRARY, POPLAR, "tensorflow_ipu.pth"} <= set(names)
    assert "tensorflow_ipu/configs/proto/trace.proto" in names
    pages = (ROOT / "tensorflow_ipu" / "profiler" / "export" / "page").iterdir()
    parts = {path.name for path in pages if path.suffix in (".css", ".html", ".js")}
    assert {f"tensorflow_ipu/profiler/export/page/{name}" for name in parts} <= set(names)
    assert "tensorflow_ipu/include/tensorflow_ipu/custom_op.h" in names
    assert not any(name.startswith(("tests/", "tensorflow_ipu/tests/")) for name in names)


def test_wheel_is_for_one_platform_and_one_tensorflow(run_python, checkout, tmp_path):
    name = call_backend(run_python, checkout, "build_wheel", str(tmp_path))
    version = f"{tensorflow_ipu.__version__}+tf{TENSORFLOW}"
    assert re.fullmatch(rf"tensorflow_ipu-{re.escape(version)}-py3-none-linux_\w+\.whl", name)
    with zipfile.ZipFile(tmp_path / name) as wheel:
        path = next(path for path in wheel.namelist() if path.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(wheel.read(path))
    needed = {Requirement(text) for text in about.get_all("Requires-Dist")}
    always = {needed.name: needed for needed in needed if needed.marker is None}
    assert about["Version"] == version
    assert str(always["tensorflow"].specifier) == f"=={TENSORFLOW}.*"
    assert ("tf_keras" in always) == (TENSORFLOW != "2.15")
    assert SpecifierSet(about["Requires-Python"]).contains("3.9") == (TENSORFLOW != "2.21")


def test_wheel_is_for_the_tensorflow_of_TF_DIR(run_python, checkout, tmp_path):
    folder = tmp_path / "tensorflow"
    header = folder / "include" / "tensorflow" / "core" / "public" / "version.h"
    header.parent.mkdir(parents=True)
    header.touch()
    (tmp_path / "tensorflow-2.18.1.dist-info").mkdir()
    code = BUILD_WHEEL.format(str(tmp_path))
    process = run_python(code, cwd=checkout, env={"TF_DIR": str(folder)})
    assert "+tf2.18-py3-none" in process.stdout.splitlines()[-1]


@pytest.mark.parametrize("version", ["2.14.1", "2.22.0"])
def test_tensorflow_that_is_not_supported_is_an_error(run_python, checkout, tmp_path, version):
    (tmp_path / f"tensorflow-{version}.dist-info").mkdir()
    code = "try:\n    " + BUILD_WHEEL.format(str(tmp_path)).replace("\n", "\n    ")
    code += "\nexcept SystemExit as error:\n    print(error)"
    env = {"TF_DIR": str(tmp_path / "tensorflow")}
    message = run_python(code, cwd=checkout, env=env).stdout
    assert "Building tensorflow_ipu needs one of these releases of TensorFlow: 2.15" in message
    assert f"There is {version} in {tmp_path / 'tensorflow'}." in message


def test_packages_of_a_wheel_import(run_python, checkout, tmp_path):
    unpack_wheel(run_python, checkout, "build_wheel", tmp_path / "wheel")
    folder = tmp_path / "wheel" / "site-packages"
    process = run_python(IMPORT_CONFIGS, "-S", args=[str(folder)], cwd=tmp_path)
    path, loaded, *search_path = process.stdout.split()
    assert Path(path) == folder / "tensorflow_ipu" / "configs" / "chips.py"
    assert loaded == "False"
    assert search_path[-1] == str(folder / "tensorflow_ipu_stubs")


def test_modules_below_tensorflow_are_real_ones(run_python, checkout, tmp_path):
    """With the finder, nothing imports them; without it, they name the missing module."""
    unpack_wheel(run_python, checkout, "build_editable", tmp_path / "wheel")
    folder = tmp_path / "wheel" / "site-packages" / "tensorflow" / "python" / "ipu"
    code = "import sys; sys.path.insert(0, sys.argv[1])\ntry:\n    import config\n"
    code += "except ModuleNotFoundError as error:\n    print(error.name)\n"
    process = run_python(code, "-S", args=[str(folder)], cwd=tmp_path)
    assert process.stdout == "tensorflow_ipu\n"


def test_an_editable_installation_uses_the_checkout(run_python, checkout, tmp_path):
    names = unpack_wheel(run_python, checkout, "build_editable", tmp_path / "wheel")
    assert files_without_metadata(names) == {LIBRARY, POPLAR, "tensorflow_ipu.pth", *IN_TENSORFLOW}
    folder = tmp_path / "wheel" / "site-packages"
    process = run_python(IMPORT_CONFIGS, "-S", args=[str(folder)], cwd=tmp_path)
    path, loaded, *search_path = process.stdout.split()
    assert Path(path).samefile(checkout / "configs" / "chips.py")
    assert loaded == "False"
    assert str(checkout) not in search_path
    # For tools only: types.
    assert search_path[-2:] == [
        str(checkout / "stubs" / "checkout"),
        str(checkout / "stubs" / "packages"),
    ]


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_interpreter_starts_without_the_package(run_python, checkout, tmp_path, hook):
    unpack_wheel(run_python, checkout, hook, tmp_path / "wheel")
    pth = tmp_path / "wheel" / "site-packages" / "tensorflow_ipu.pth"
    (tmp_path / "alone").mkdir()
    gone = pth.read_text().replace(str(checkout), str(tmp_path / "gone"))
    (tmp_path / "alone" / pth.name).write_text(gone)
    code = "import site, sys; site.addsitedir(sys.argv[1]); print('tensorflow_ipu' in sys.modules)"
    process = run_python(code, "-S", args=[str(tmp_path / "alone")], cwd=tmp_path)
    assert (process.stdout, process.stderr) == ("False\n", "")


def test_source_archive_builds_the_same_wheel(run_python, checkout, tmp_path):
    name = call_backend(run_python, checkout, "build_sdist", str(tmp_path))
    assert name == f"tensorflow_ipu-{tensorflow_ipu.__version__}.tar.gz"  # for no TensorFlow
    with tarfile.open(tmp_path / name) as archive:
        # Python 3.12 and later ask for a filter, the first ones of 3.11 have none.
        archive.extractall(
            tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    source = tmp_path / name.replace(".tar.gz", "")
    from_archive = unpack_wheel(run_python, source, "build_wheel", tmp_path / "from_archive")
    from_checkout = unpack_wheel(run_python, checkout, "build_wheel", tmp_path / "from_checkout")
    assert files_without_metadata(from_archive) == files_without_metadata(from_checkout)


def test_build_requires_tensorflow_only_where_it_is_missing(run_python, checkout, tmp_path):
    hook = "get_requires_for_build_wheel"
    assert call_backend(run_python, checkout, hook, None) == []
    process = run_python(
        "import sys, sysconfig\n"
        "sys.path.insert(0, 'build_backend')\n"
        f"sysconfig.get_path = lambda name: {str(tmp_path)!r}\n"
        "import tensorflow_ipu_build\n"
        f"print(tensorflow_ipu_build.{hook}())\n",
        cwd=checkout,
    )
    newest = "2.20" if sys.version_info < (3, 10) else "2.21"
    assert process.stdout.splitlines()[-1] == f"['tensorflow=={newest}.*']"


def test_installed_version_is_that_of_the_package():
    version = metadata.version("tensorflow_ipu")
    assert version.partition("+")[0] == tensorflow_ipu.__version__


def test_every_package_folder_of_the_root_is_linked():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == {*repository.FOLDERS}


SOURCES = ["engine/inner/launch.cc", "kernels/ops.cc", "plugin/plugin.cc"]
HEADER = "precompiled.h"
ALL_STEPS = sorted([*SOURCES, HEADER, "link"])


class NativeTree:
    """The native Makefile over sources of the test, with a compiler that only writes its output."""

    def __init__(self, folder):
        self.native = folder / "native"
        self.native.mkdir()
        shutil.copy(ROOT / "native" / "Makefile", self.native)
        for source in (*SOURCES, HEADER):
            (self.native / source).parent.mkdir(parents=True, exist_ok=True)
            (self.native / source).touch()
        self.compiler = folder / "compiler"
        self.compiler.write_text(
            "#!/bin/sh\n"
            'echo "$@" >> ../commands\n'
            'while [ "$1" != -o ]; do case "$1" in *.cc|*.h) source=$1;; esac; shift; done\n'
            'echo "${source:-link}" >> ../log\n'
            'touch "$2"\n'
        )
        self.compiler.chmod(0o755)
        self.tensorflow = folder / "tensorflow"
        self.install_tensorflow(1)

    def install_tensorflow(self, patch):
        header = self.tensorflow / "include" / "tensorflow" / "core" / "public" / "version.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.touch()
        for old in self.tensorflow.parent.glob("tensorflow-*.dist-info"):
            old.rmdir()
        (self.tensorflow.parent / f"tensorflow-2.15.{patch}.dist-info").mkdir()

    def make(self, *arguments):
        """Runs make; returns the compiled and linked files, and keeps the text in `output`."""
        log = self.native.parent / "log"
        log.unlink(missing_ok=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        command = ["make", "-C", str(self.native), f"CXX={self.compiler}"]
        command += [f"TF_DIR={self.tensorflow}", f"OUT={self.native.parent / 'out'}", *arguments]
        process = subprocess.run(command, check=True, capture_output=True, text=True, env=clean)
        self.output = process.stdout
        return sorted(log.read_text().split()) if log.exists() else []


@pytest.fixture
def native_tree(tmp_path):
    tree = NativeTree(tmp_path)
    assert tree.make() == ALL_STEPS
    assert (tmp_path / "out" / "libtensorflow_ipu.so").exists()
    return tree


def test_native_library_is_built_once(native_tree):
    assert native_tree.make() == []


def test_native_library_is_linked_again_without_removed_source(native_tree):
    (native_tree.native / "kernels" / "ops.cc").unlink()
    assert native_tree.make() == ["link"]
    assert native_tree.make() == []


@pytest.mark.parametrize("change", ["TensorFlow", "flags"])
def test_native_library_is_built_again_after_change_of(native_tree, change):
    if change == "TensorFlow":
        native_tree.install_tensorflow(0)
    arguments = ["CXXFLAGS=-O0"] if change == "flags" else []
    assert native_tree.make(*arguments) == ALL_STEPS
    assert native_tree.make(*arguments) == []


def test_native_build_reports_progress(native_tree):
    assert re.findall(r"^\[.*", native_tree.output, re.MULTILINE) == [
        "[1/5] precompiled.h (headers of TensorFlow)",
        "[2/5] engine/inner/launch.cc",
        "[3/5] kernels/ops.cc",
        "[4/5] plugin/plugin.cc",
        "[5/5] libtensorflow_ipu.so",
    ]
    (native_tree.native / "kernels" / "ops.cc").write_text("changed")
    assert native_tree.make("-j2", "CXXFLAGS=-O2") == ["kernels/ops.cc", "link"]
    steps = re.findall(r"^\[.*", native_tree.output, re.MULTILINE)
    assert steps == ["[1/2] kernels/ops.cc", "[2/2] libtensorflow_ipu.so"]


def test_sanitized_library_has_objects_of_its_own(native_tree, tmp_path):
    (tmp_path / "commands").unlink()
    own = f"OUT={tmp_path / 'sanitized'}"
    assert native_tree.make("SANITIZE=address", own) == ALL_STEPS
    assert (tmp_path / "sanitized" / "libtensorflow_ipu.so").exists()
    commands = (tmp_path / "commands").read_text().splitlines()
    assert len(commands) == len(ALL_STEPS)
    assert all("-fsanitize=address" in command for command in commands)
    assert native_tree.make() == native_tree.make("SANITIZE=address", own) == []


def test_native_library_needs_the_headers(native_tree):
    shutil.rmtree(native_tree.tensorflow)
    with pytest.raises(subprocess.CalledProcessError) as raised:
        native_tree.make()
    assert "No TensorFlow headers in" in raised.value.stderr
