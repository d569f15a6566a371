"""Writing files: whole or not at all, for the user only, and nowhere else in the project."""

from __future__ import annotations

import ast
import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from absl import logging

from tensorflow_ipu.util import private_files

ROOT = Path(__file__).parents[2]
PACKAGES = ("tensorflow_ipu", "configs", "ops", "keras_layers", "estimators")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask():
    """Lets new files be readable by all, as far as their creator allows."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_files_and_folders_are_for_the_user_only(tmp_path, open_umask) -> None:
    folder = private_files.make_folder(tmp_path / "a" / "b")
    private_files.write_text(folder / "text", "ä\r\n")
    private_files.write_bytes(folder / "bytes", b"\0")
    assert [_mode(path) for path in (folder.parent, folder)] == [0o700, 0o700]
    assert [_mode(path) for path in folder.iterdir()] == [0o600, 0o600]
    assert (folder / "text").read_bytes() == "ä\r\n".encode()


def test_what_a_library_wrote_is_restricted(tmp_path, open_umask) -> None:
    (tmp_path / "run" / "deep").mkdir(parents=True)
    (tmp_path / "run" / "deep" / "file").touch()
    (tmp_path / "other").touch()
    (tmp_path / "run" / "link").symlink_to(tmp_path / "other")
    private_files.restrict(tmp_path / "run")
    assert _mode(tmp_path / "run" / "deep") == 0o700
    assert _mode(tmp_path / "run" / "deep" / "file") == 0o600
    assert _mode(tmp_path / "other") == 0o666


def test_a_folder_that_must_be_new(tmp_path) -> None:
    assert private_files.make_folder(tmp_path) == tmp_path
    with pytest.raises(FileExistsError):
        private_files.make_folder(tmp_path, exist_ok=False)


class TestErrors:
    @pytest.fixture
    def path(self, tmp_path):
        (tmp_path / "file").write_text("before")
        return tmp_path / "file"

    def check(self, path: Path) -> None:
        """Checks that the old file is still there, and nothing else."""
        assert path.read_text() == "before" and os.listdir(path.parent) == ["file"]

    @pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt(), OSError("mine")])
    def test_errors_of_block_leave_file_as_it_was(self, path, error) -> None:
        with pytest.raises(type(error)) as raised, private_files.replacing(path) as file:
            file.write(b"half")
            assert len(private_files.partials(path)) == 1
            raise error
        assert raised.value is error
        self.check(path)

    def test_errors_of_other_file_stay(self, path, tmp_path) -> None:
        with pytest.raises(FileNotFoundError, match="none"), private_files.replacing(path):
            (tmp_path / "none").read_bytes()
        self.check(path)

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES])
    @pytest.mark.parametrize("step", ["mkstemp", "write", "replace"])
    def test_errors_of_the_disk_name_the_file(self, path, monkeypatch, step, number) -> None:
        def fail(*arguments, **_):
            name = None if step == "write" else f"{path}.partial"
            raise OSError(number, os.strerror(number), name)

        if step == "write":
            opened = os.fdopen

            def fdopen(*arguments):
                file = opened(*arguments)
                monkeypatch.setattr(os, "fdopen", opened)
                return _Full(file, fail)

            monkeypatch.setattr(os, "fdopen", fdopen)
        else:
            owner = private_files.tempfile if step == "mkstemp" else os
            monkeypatch.setattr(owner, step, fail)
        with pytest.raises(OSError) as raised:
            private_files.write_text(path, "after")
        assert raised.value.errno == number and raised.value.filename == str(path)
        monkeypatch.undo()
        self.check(path)

    def test_where_files_may_not_grow(self, path) -> None:
        code = """
import resource, sys
from tensorflow_ipu.util import private_files
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    private_files.write_bytes(sys.argv[1], bytes(101))
except OSError as error:
    print(error.filename)
"""
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == (f"{path}\n", "")
        self.check(path)

    def test_a_folder_in_the_place_of_a_file(self, tmp_path) -> None:
        (tmp_path / "folder").mkdir()
        with pytest.raises(IsADirectoryError, match="folder"):
            private_files.write_text(tmp_path / "folder", "")
        with pytest.raises(NotADirectoryError, match="file"):
            (tmp_path / "file").touch()
            private_files.write_text(tmp_path / "file" / "x", "")
        with pytest.raises(FileNotFoundError, match="none"):
            private_files.write_text(tmp_path / "none" / "x", "")
        assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_symbolic_links_are_followed(tmp_path) -> None:
    (tmp_path / "target").write_text("before")
    (tmp_path / "link").symlink_to("target")
    private_files.write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "after"


def test_files_may_have_the_longest_names(tmp_path) -> None:
    for name in ("n" * 255, "\N{PILE OF POO}" * 63):
        private_files.write_text(tmp_path / name, "x")
        assert (tmp_path / name).read_text() == "x"


def test_pipes_and_devices_are_not_replaced(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    private_files.write_text(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    private_files.write_text("/dev/null", "x")
    assert not stat.S_ISREG(os.stat("/dev/null").st_mode)


def test_each_folder_has_one_warning(tmp_path, monkeypatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for folder in ("a", "b", "a"):
        private_files.warn_not_written("Reports", tmp_path / folder, full)
    assert len(warnings) == 2
    assert all(text in warnings[1] for text in ("Reports", str(tmp_path / "b"), "No space left"))


# Names of functions and methods that make, change or move files.
_WRITES = {
    *("write_text", "write_bytes", "touch", "mkdir", "makedirs", "mkstemp", "mkdtemp"),
    *("NamedTemporaryFile", "TemporaryFile", "rename", "renames", "symlink_to", "hardlink_to"),
    *("copyfile", "copy2", "copytree", "move", "savez", "savetxt", "tofile", "dump"),
    *("os.open", "os.replace", "os.mkfifo", "os.link"),
}
# Where else something is written, and why.
_ELSEWHERE = {
    # Files that the user names or the compiler reads, and a cache that the compiler writes.
    *(f"tensorflow_ipu/frontends/poplar/popc.py {name}" for name in ("mkdir", "copyfile")),
    *(f"tensorflow_ipu/frontends/poplar/popc.py {name}" for name in ("os.replace", "write_text")),
    *(f"tensorflow_ipu/frontends/cpp_ops/binding.py {name}" for name in ("mkdir", "os.replace")),
    "tensorflow_ipu/compiler/store.py os.open",  # the lock of the executable cache, mode 0600
    "tensorflow_ipu/cli/console.py os.open",  # the null device
    "tensorflow_ipu/serving/application_compile_op.py mkstemp",  # a name of its own, mode 0600
    "tensorflow_ipu/feeds/dataset_extractor.py open",  # a member of an archive, written as above
    "tensorflow_ipu/frontends/popxl_addons/task_session.py open",  # likewise
}
# Names of modules and functions that make code or objects of what is in a file.
_EXECUTES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "runpy"),
    *("eval", "exec", "execfile", "compile_command", "load_source"),
}


def _sources() -> list[Path]:
    return [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]


def _calls(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            yield node, name


def _opens_to_write(call: ast.Call, name: str) -> bool:
    """Whether a call is `open` with a mode that writes."""
    given = [*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode")]
    modes = [str(node.value) for node in given if isinstance(node, ast.Constant)]
    return name == "open" and any(re.fullmatch("[rbt]*[wax+][+bt]*", mode) for mode in modes)


def test_files_are_written_here_and_nowhere_else() -> None:
    found = set()
    for path in _sources():
        for call, name in _calls(ast.parse(path.read_text())):
            qualified = ast.unparse(call.func)
            if qualified.startswith("private_files.") or path.name == "private_files.py":
                continue
            if {name, qualified} & _WRITES or _opens_to_write(call, name):
                written = qualified if qualified in _WRITES else name
                found.add(f"{path.relative_to(ROOT)} {written}")
    assert found == _ELSEWHERE


def test_nothing_in_a_file_is_executed_or_unpickled() -> None:
    found = []
    for path in _sources():
        tree = ast.parse(path.read_text())
        where = path.relative_to(ROOT)
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").split(".")[0]]
            found += [f"{where}:{node.lineno} {name}" for name in names if name in _EXECUTES]
        for call, name in _calls(tree):
            # The program that `tensorflow-ipu run` was asked to run.
            asked = (where.as_posix(), name) == ("tensorflow_ipu/compat/runner.py", "exec")
            if name in _EXECUTES and isinstance(call.func, ast.Name) and not asked:
                found.append(f"{where}:{call.lineno} {name}")
            if ast.unparse(call.func) in ("np.load", "numpy.load") and not any(
                word.arg == "allow_pickle" and word.value.value is False for word in call.keywords
            ):
                found.append(f"{where}:{call.lineno} np.load without allow_pickle=False")
    assert found == []


class _Full:
    """A file whose disk is full."""

    def __init__(self, file, write) -> None:
        self._file, self.write = file, write

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
