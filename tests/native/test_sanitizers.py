"""Building with sanitizers, and whether they see a fault inside a launch of two replicas."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tensorflow_ipu.ops import custom_ops

ROOT = Path(__file__).resolve().parents[2]
SANITIZER = os.environ.get("SANITIZER")  # that this process runs under: native/sanitizers/run.py

LAUNCH = """
import sys
import tensorflow as tf
from tensorflow_ipu.ops import custom_ops
from tests.support.programs import replicas

outs = {"output_types": [tf.int32], "output_shapes": [[1]]}
library, name = sys.argv[1:]
replicas.run(
    2,
    lambda: custom_ops.precompiled_user_op([tf.zeros([1])], library, outs=outs, op_name=name)[0],
)
"""


@pytest.fixture
def sanitizers() -> ModuleType:
    """The module `native/sanitizers/run.py`."""
    spec = importlib.util.spec_from_file_location("run", ROOT / "native/sanitizers/run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_environment_is_same_but_for_our_libraries(
    tmp_path: Path, sanitizers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizers, "ROOT", tmp_path)
    for _ in range(2):
        packages = sanitizers.prepare("thread")
        for folder in ("tensorflow-plugins", "tensorflow_ipu_sdk"):
            (packages / folder / "library").mkdir(parents=True, exist_ok=True)
    python = tmp_path / "build" / "sanitized" / "thread" / "bin" / "python"
    code = "import pytest, sysconfig; print(pytest.__version__, sysconfig.get_path('platlib'))"
    process = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == [pytest.__version__, str(packages)]
    for folder in ("tensorflow-plugins", "tensorflow_ipu_sdk"):
        assert [path.name for path in (packages / folder).iterdir()] == ["library"]


@pytest.mark.parametrize(("reports", "code"), [(0, 0), (0, 7), (1, 0), (2, 7)])
def test_reports_are_shown_and_fail(
    tmp_path: Path,
    sanitizers: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    reports: int,
    code: int,
) -> None:
    monkeypatch.setattr(sanitizers, "environment_folder", lambda _: Path(sys.prefix))
    monkeypatch.setenv("UBSAN_OPTIONS", "silence_unsigned_overflow=1")
    program = (
        "import os, sys; options = os.environ['UBSAN_OPTIONS'].split(':');"
        "assert options[-1] == 'silence_unsigned_overflow=1', options;"
        "path = next(o[9:] for o in options if o.startswith('log_path='));"
        "[open(f'{path}.{i}', 'w').write(f'fault {i}') for i in range(int(sys.argv[1]))];"
        "sys.exit(int(sys.argv[2]))"
    )
    result = sanitizers.run("undefined", ["-c", program, str(reports), str(code)])
    assert result == (code or (1 if reports else 0))
    output = capfd.readouterr().out
    assert [f"fault {i}" in output for i in range(3)] == [i < reports for i in range(3)]


@pytest.mark.parametrize("arguments", [[], ["thread"], ["memory", "-V"]])
def test_wrong_arguments_say_which_there_are(arguments: list[str]) -> None:
    command = [sys.executable, ROOT / "native" / "sanitizers" / "run.py", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.startswith("usage: run.py address|thread|undefined ")


@pytest.mark.process
@pytest.mark.skipif(SANITIZER is None, reason="for `make test-sanitized`")
def test_a_fault_is_found(tmp_path: Path, sanitizers: ModuleType) -> None:
    """Suppressions and the assumed order of TensorFlow's threads hide no fault."""
    library = tmp_path / "libfaults.so"
    command = ["g++", "-std=c++17", "-g", "-shared", "-fPIC", f"-fsanitize={SANITIZER}"]
    command += ["-I", custom_ops.include_dir(), Path(__file__).parent / "faults.cc", "-o", library]
    subprocess.run(command, check=True)
    reports = tmp_path / "reports"
    reports.mkdir()
    options = sanitizers.SANITIZERS[SANITIZER][1]
    # This report is not one of the process that tests; the last setting of an option counts.
    environment = {options: f"{os.environ[options]}:log_path={reports / 'report'}"}
    environment["PYTHONPATH"] = str(ROOT)
    subprocess.run(
        [sys.executable, "-c", LAUNCH, library, SANITIZER],
        env={**os.environ, **environment},
        cwd=tmp_path,
        check=False,  # some sanitizers end the process
        timeout=300,
    )
    (report,) = [path.read_text() for path in reports.iterdir()]
    assert f" {SANITIZER} " in report  # the name of the function
    assert "faults.cc" in report
