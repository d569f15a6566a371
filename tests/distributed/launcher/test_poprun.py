"""`poprun` with small real programs: output, signals, exit codes, and leftovers."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tensorflow_ipu.distributed.launcher import main as launcher
from tensorflow_ipu.distributed.launcher import supervisor
from tensorflow_ipu.distributed.launcher.supervisor import Command

pytestmark = pytest.mark.process

POPRUN = (sys.executable, "-m", "tensorflow_ipu.distributed.launcher")
# Seconds after which something hangs.
LONG = 60


def poprun(*words: str, **options) -> subprocess.CompletedProcess[str]:
    """Runs `poprun` to its end."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([*POPRUN, *words], **{**pipes, "text": True, "timeout": LONG, **options})


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def end_started():
    """Kills processes that a failed test leaves behind; instances go with their `poprun`."""
    yield
    while _started:
        process = _started.pop()
        process.kill()
        process.communicate()


def start(*words: str) -> subprocess.Popen[str]:
    """Starts `poprun`, in a session of its own as under a terminal."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(
        [*POPRUN, *words],
        text=True,
        start_new_session=True,
        # The tests may run under nohup.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509
        **pipes,
    )
    _started.append(process)
    return process


def shell(script: str, count: int = 2, *options: str) -> tuple[str, ...]:
    """Arguments that run a script of the shell in some instances; `$I` is the index."""
    script = f"I=$POPDIST_INSTANCE_INDEX; {script}"
    return ("--num-instances", str(count), *options, "sh", "-c", script)


def pids(process: subprocess.Popen[str], count: int) -> list[int]:
    """Reads the process ids that instances print, each in a line."""
    assert process.stdout is not None
    return [int(process.stdout.readline().split()[-1]) for _ in range(count)]


def gone(*found: int) -> bool:
    """Whether processes are gone, or are in a while."""
    until = time.monotonic() + LONG
    left = list(found)
    while left := [pid for pid in left if _runs(pid)]:
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _first_fails_last(folder: Path, code: int) -> str:
    """A script: instance 0 fails once instance 1 has come as far."""
    file = shlex.quote(str(folder / "here"))
    wait = f"while [ ! -e {file} ]; do sleep 0.01; done"
    return f"if [ $I = 1 ]; then : > {file}; else {wait}; exit {code}; fi"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class TestOutput:
    def test_lines_have_instance_index_and_keep_stream(self):
        script = "echo out $I; echo error $I >&2; printf 'the end'"
        process = poprun(*shell(script, 3))
        assert process.returncode == 0
        expected = [line for i in range(3) for line in (f"[{i}] out {i}", f"[{i}] the end")]
        assert sorted(process.stdout.splitlines()) == expected
        assert sorted(process.stderr.splitlines()) == [f"[{i}] error {i}" for i in range(3)]
        assert process.stdout.endswith("\n")

    def test_lines_of_instances_do_not_mix(self, tmp_path):
        """Both streams go to one file, long lines are written in pieces."""
        program = (
            "import os, sys; i = os.environ['POPDIST_INSTANCE_INDEX']\n"
            "for n in range(40):\n"
            "    for stream in (sys.stdout, sys.stderr):\n"
            "        for part in range(4): stream.write(i * 3000); stream.flush()\n"
            "        stream.write('\\n'); stream.flush()\n"
        )
        with open(tmp_path / "both", "w+") as both:
            poprun("--num-instances", "3", sys.executable, "-c", program, stdout=both, stderr=both)
            both.seek(0)
            lines = both.read().splitlines()
        assert sorted(set(lines)) == [f"[{i}] {str(i) * 12000}" for i in range(3)]
        assert len(lines) == 3 * 40 * 2

    def test_bytes_that_are_no_text_are_passed_on(self):
        process = poprun(*shell(r"printf '\377\0\n'", 1), text=False)
        assert process.stdout == b"[0] \xff\0\n"

    def test_only_output_of_one_instance_is_passed_on(self):
        script = "echo out $I; echo error $I >&2"
        process = poprun(*shell(script, 3, "--only-output-from-instance", "1"))
        assert (process.stdout, process.stderr) == ("[1] out 1\n", "[1] error 1\n")

    def test_program_is_told_when_nobody_reads_any_more(self):
        """As `yes | head` ends, so does `poprun yes | head`."""
        process = start("--num-instances", "2", "yes")
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(LONG) != 0 and "BrokenPipe" not in error
        process.stderr.close()

    def test_output_that_is_closed_is_none(self, tmp_path):
        words = [*POPRUN, *shell("echo a; echo b >&2; echo > $1/$I", 2), "sh", str(tmp_path)]
        process = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *words], timeout=LONG)
        assert process.returncode == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]

    def test_the_first_instance_has_the_input(self):
        process = poprun(*shell("read line; echo $line", 1), input="word\n")
        assert process.stdout == "[0] word\n"

    def test_the_other_instances_have_none(self):
        process = poprun(*shell("[ $I = 0 ] || wc -c", 3), input="word\n")
        assert sorted(process.stdout.splitlines()) == ["[1] 0", "[2] 0"]

    def test_python_prints_at_once(self):
        program = "import os, time; print(os.getpid()); time.sleep(100)"
        process = start("--num-instances", "2", sys.executable, "-c", program)
        found = pids(process, 2)  # which would hang
        process.terminate()
        process.communicate(timeout=LONG)
        assert gone(*found)


class TestEnds:
    def test_first_failure_gives_exit_code_and_ends_others(self):
        script = "[ $I = 1 ] && exit 3; sleep 100"
        process = poprun(*shell(script, 3))
        assert process.returncode == 3
        assert process.stderr == (
            "poprun: instance 1 ended with exit code 3; the others are ended.\n"
        )

    def test_a_signal_is_named_and_counts_128_more(self):
        process = poprun(*shell("[ $I = 0 ] && kill -9 $$; sleep 100"))
        assert process.returncode == 128 + signal.SIGKILL
        assert process.stderr == (
            "poprun: instance 0 was ended by SIGKILL, exit code 137; the others are ended.\n"
        )

    def test_one_instance_has_no_others(self):
        process = poprun(*shell("exit 255", 1))
        assert process.returncode == 255
        assert process.stderr == "poprun: instance 0 ended with exit code 255.\n"

    def test_children_end_with_their_instance(self, tmp_path):
        """Lines of the failing instance are passed on, too."""
        script = f"sleep 100 & echo $!; {_first_fails_last(tmp_path, 5)}; wait"
        process = start(*shell(script))
        found = pids(process, 2)
        process.communicate(timeout=LONG)
        assert process.returncode == 5 and gone(*found)

    def test_who_does_not_end_is_killed_after_while(self, capfd, tmp_path):
        script = f"trap '' TERM; echo $$; {_first_fails_last(tmp_path, 4)}; sleep 100"
        commands = [
            Command(["sh", "-c", script], {**os.environ, "I": str(index)}) for index in range(2)
        ]
        began = time.monotonic()
        assert supervisor.run(commands, grace=0.2) == 4
        assert time.monotonic() - began < LONG  # not the 100 s
        assert gone(*(int(line.split()[1]) for line in capfd.readouterr().out.splitlines()))

    def test_what_a_successful_instance_leaves_behind_is_ended(self, capfd):
        command = Command(["sh", "-c", "sleep 100 & echo $!"], os.environ)
        assert supervisor.run([command], grace=0.1) == 0
        assert gone(int(capfd.readouterr().out.split()[1]))


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_signals_go_to_all_instances(self, number):
        name = number.name[3:]
        script = f"trap 'echo got; exit 0' {name}; echo $$; while :; do sleep 0.01; done"
        process = start(*shell(script))
        pids(process, 2)
        process.send_signal(number)
        out, error = process.communicate(timeout=LONG)
        assert sorted(out.splitlines()) == ["[0] got", "[1] got"]
        assert process.returncode == 0 and "poprun" not in error

    def test_instances_that_signal_ends_give_its_exit_code(self):
        process = start(*shell("echo $$; sleep 100"))
        found = pids(process, 2)
        process.send_signal(signal.SIGTERM)  # dash, in the middle of a fork, loses SIGINT
        _, error = process.communicate(timeout=LONG)
        assert process.returncode == 143 and "was ended by SIGTERM" in error
        assert gone(*found)

    def test_what_is_ignored_stays_ignored(self):
        """As under `nohup`."""
        script = 'trap "" HUP; exec "$@"'
        words = [*POPRUN, *shell("echo $$; read line; echo $line", 1)]
        process = subprocess.Popen(
            ["sh", "-c", script, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        pids(process, 1)
        process.send_signal(signal.SIGHUP)
        assert process.communicate("word\n", timeout=LONG)[0] == "[0] word\n"
        assert process.returncode == 0

    def test_a_launcher_that_is_killed_leaves_no_instance(self):
        process = start(*shell("trap '' TERM HUP; echo $$; while :; do sleep 1; done"))
        found = pids(process, 2)
        process.kill()
        process.communicate(timeout=LONG)
        assert gone(*found)


class TestCommandLine:
    def test_instances_are_told_who_they_are(self):
        script = (
            "echo $POPDIST_NUM_INSTANCES $I $POPDIST_NUM_TOTAL_REPLICAS "
            "$POPDIST_NUM_IPUS_PER_REPLICA $POPDIST_OFFLINE_MODE $POPDIST_INSTANCE_ADDRESSES"
        )
        options = ("--num-replicas=4", "--ipus-per-replica", "2", "--offline-mode=on")
        process = poprun(*shell(script, 2, *options))
        told, addresses = zip(*(line.rsplit(" ", 1) for line in process.stdout.splitlines()))
        assert sorted(told) == ["[0] 2 0 4 2 1", "[1] 2 1 4 2 1"]
        assert addresses[0] == addresses[1] and len(set(addresses[0].split(","))) == 2

    @pytest.mark.parametrize(
        "option, offline",
        [("--offline-mode", 1), ("--offline-mode=on", 1), ("--offline-mode=off", 0)],
    )
    def test_offline_mode_has_its_value_in_one_word(self, option, offline):
        process = poprun(*shell("echo $POPDIST_OFFLINE_MODE", 1, option))
        assert process.stdout == f"[0] {offline}\n"

    def test_options_behind_the_program_are_its_own(self):
        process = poprun("echo", "--num-instances", "0", "-v", "--", "--host")
        assert process.stdout == "[0] --num-instances 0 -v -- --host\n"

    def test_what_changes_nothing_is_said(self):
        options = ("--mpi-global-args=--allow-run-as-root", "--mpi-local-args", "-x A -x B")
        process = poprun(*options, "true")
        assert process.stderr == (
            "poprun: --mpi-global-args is ignored: there is no MPI here.\n"
            "poprun: --mpi-local-args is ignored: there is no MPI here.\n"
        )

    def test_verbose_says_where_and_with_what(self):
        once = poprun("-v", "true")
        twice = poprun("-vv", "true")
        assert once.stderr.startswith("poprun: instance 0 is at localhost:")
        assert once.stderr.endswith(": true\n") and once.stderr.count("\n") == 1
        assert "poprun: instance 0 has POPDIST_NUM_INSTANCES=1 " in twice.stderr

    @pytest.mark.parametrize(
        "words, text",
        [
            (["no-such-program"], "There is no program 'no-such-program'."),
            (["./no/such.py"], "There is no program './no/such.py'."),
            (["./train.py"], "./train.py is not executable. Did you mean `python ./train.py`?"),
            (["train.py"], "train.py is not a command on PATH. Did you mean `python train.py`?"),
            (["./folder"], "./folder is a folder; expected a program."),
            (["./broken"], "Exec format error: './broken'"),
            (["--num-instances=2", "--num-replicas=3", "true"], "multiple of --num-instances, 2"),
            (["--num-instances=3", "--host=a,b", "true"], "evenly among 2 hosts"),
            (["--host=,", "true"], "evenly among 0 hosts"),
            (["--host=localhost,localhost", "--num-instances=2", "true"], "localhost twice"),
            (["--only-output-from-instance=1", "true"], "less than --num-instances, 1"),
            (["--offline-mode", "on", "true"], "Write --offline-mode=on, with an equals sign."),
        ],
    )
    def test_what_cannot_be_run_is_one_line(self, words, text, tmp_path, monkeypatch, capfd):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "train.py").write_text("")
        (tmp_path / "broken").write_bytes(b"\0\1\2")
        (tmp_path / "broken").chmod(0o755)
        (tmp_path / "folder").mkdir()
        assert launcher.main(words) == 2
        out, error = capfd.readouterr()
        assert error.startswith("poprun: ") and error.count("\n") == 1
        assert text in error and out == ""

    @pytest.mark.parametrize(
        "words, text",
        [
            ([], "PROGRAM"),
            (["--num-instances", "0", "true"], "'0' is not a positive whole number"),
            (["--ipus-per-replica", "x", "true"], "'x' is not a positive whole number"),
            (["--only-output-from-instance", "-1", "true"], "instance"),
            (["--num-instance", "2", "true"], "unrecognized arguments: --num-instance"),
        ],
    )
    def test_wrong_options_show_the_usage(self, words, text, capsys):
        with pytest.raises(SystemExit) as ended:
            launcher.main(words)
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert error.startswith("usage: poprun [OPTION ...] PROGRAM") and text in error

    def test_help_has_examples(self, capsys):
        with pytest.raises(SystemExit) as ended:
            launcher.main(["--help"])
        text = capsys.readouterr().out
        assert ended.value.code == 0 and "poprun --num-instances 2 python train.py" in text
        assert max(map(len, text.splitlines())) <= 100


class TestRun:
    """`tensorflow-ipu run --instances N`."""

    def test_runs_a_program_in_several_processes(self, tmp_path):
        program = tmp_path / "program.py"
        program.write_text(
            "import os, sys\n"
            "print(sys.argv[1:], os.environ['POPDIST_INSTANCE_INDEX'], "
            "os.environ['POPDIST_NUM_TOTAL_REPLICAS'])\n"
        )
        options = ["--instances", "2", "--num-replicas", "4", "--tensorflow", "2", "--quiet"]
        words = [sys.executable, "-m", "tensorflow_ipu.cli", "run", *options, str(program), "-v"]
        process = subprocess.run(words, capture_output=True, text=True, timeout=LONG)
        assert process.returncode == 0, process.stderr
        assert sorted(process.stdout.splitlines()) == ["[0] ['-v'] 0 4", "[1] ['-v'] 1 4"]
