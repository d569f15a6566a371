"""Forks end as processes of Python do, and share nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import forks

Run = Callable[..., Any]

ENDS = [
    "print('end')",
    "import sys; print('a'); sys.exit(3)",
    "raise SystemExit('the end')",
    "import atexit; atexit.register(print, 'last')",
    "import os; os._exit(4)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import sys; print(__name__, sys.argv, sys.path[0], sys.stdin.read(), file=sys.stderr)",
    "print(sorted(globals()))",
]


@pytest.fixture(scope="module")
def served() -> Iterator[forks.Forks]:
    served = forks.Forks(["json", "no_such_module"], os.environ)
    yield served
    served.close()


@pytest.fixture(scope="module")
def run(served: forks.Forks) -> Run:
    def run_code(code: str, *args: str, timeout: float = 60, cwd: Path | None = None) -> Any:
        return served.run(code, args, {**os.environ, "MINE": "1"}, cwd, timeout)

    return run_code


@pytest.mark.parametrize("code", ENDS)
def test_forks_end_as_new_processes_do(run: Run, code: str) -> None:
    found = run(code, "x")
    expected = subprocess.run(
        [sys.executable, "-c", code, "x"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == expected.returncode
    assert found.stdout == expected.stdout
    assert found.stderr == expected.stderr


def test_errors_are_printed_as_ever(run: Run) -> None:
    found = run("1 / 0")
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_forks_leave_nothing_behind(run: Run, tmp_path: Path) -> None:
    run("import builtins, os; builtins.left = 1; os.environ['LEFT'] = '1'", cwd=tmp_path)
    code = (
        "import builtins, os; print(hasattr(builtins, 'left'), 'LEFT' in os.environ, os.getcwd())"
    )
    assert run(code).stdout.split() == ["False", "False", os.getcwd()]
    assert run(
        "import os; print(os.environ['MINE'], os.getcwd())", cwd=tmp_path
    ).stdout.split() == [
        "1",
        str(tmp_path),
    ]


def test_modules_are_imported_once(run: Run) -> None:
    code = "import sys; print('json' in sys.modules)"
    assert run(code).stdout == "True\n"


def test_forks_that_take_too_long_are_killed(run: Run) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run("import signal; signal.pause()", timeout=0.5)
    assert run("import os, signal; os.kill(os.getpid(), 15)").returncode == -signal.SIGTERM


def test_forks_run_at_the_same_time(served: forks.Forks, tmp_path: Path) -> None:
    """Two forks wait for this process, and the second to start is the first to end."""
    code = (
        "import os, sys; print(os.getpgid(0), flush=True); sys.exit(int(open(sys.argv[1]).read()))"
    )
    names = [str(tmp_path / name) for name in "ab"]
    for name in names:
        os.mkfifo(name)
    started = []
    for name in names:
        reading, writing = os.pipe()
        started.append((served.start(code, [name], os.environ, None, (writing, 2)), reading))
        os.close(writing)
    for value, (fork, reading), name in reversed(list(zip((5, 6), started, names))):
        with open(reading) as output:
            assert int(output.readline()) == fork.pid
        assert fork.poll() is None
        Path(name).write_text(str(value))
        assert fork.wait(60) == fork.poll() == value
        fork.kill()


def test_failed_imports_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    served = forks.Forks(["broken"], {**os.environ, "PYTHONPATH": str(tmp_path)})
    with pytest.raises(RuntimeError, match="It has ended"):
        served.run("print()", (), {}, None, 60)
    served.close()
