"""Where instances run: addresses here and elsewhere, and commands over ssh.

There is no ssh server here: a script called `ssh` runs what it is given in a session of its own,
and closes its standard input when it ends, as a server does.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tensorflow_ipu.distributed.launcher import main

FAKE_SSH = f"""#!{sys.executable} -S
import os, subprocess, sys, threading
if "nowhere" in sys.argv:
    sys.exit("ssh: Could not resolve hostname nowhere")
command = ["sh", "-c", sys.argv[-1]]
process = subprocess.Popen(command, stdin=subprocess.PIPE, env={{}}, start_new_session=True)
def end():
    sys.stdin.read()
    process.stdin.close()
threading.Thread(target=end, daemon=True).start()
code = process.wait()
os._exit(code)
"""


@pytest.fixture
def fake_ssh(tmp_path, monkeypatch) -> Path:
    """A folder with an `ssh`, the first one on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(FAKE_SSH)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_instances_here_get_ports_that_are_free():
    found = main.host_addresses(["localhost"], 4)
    ports = [int(address.rpartition(":")[2]) for address in found]
    assert [address.rpartition(":")[0] for address in found] == ["localhost"] * 4
    assert len(set(ports)) == 4
    for port in ports:
        with socket.socket() as free:
            free.bind(("", port))


def test_each_host_has_as_many_instances_in_row():
    assert main.host_addresses(["a", "b"], 4) == ["a:25000", "a:25001", "b:25000", "b:25001"]


def test_other_hosts_know_this_one_by_its_name():
    here, other = main.host_addresses(["localhost", "other"], 2)
    assert here.rpartition(":")[0] == socket.gethostname()
    assert other == "other:25000"


@pytest.mark.parametrize("names, count", [(["a", "b"], 3), (["a", "b", "c"], 2), ([], 1)])
def test_instances_that_cannot_be_divided_are_an_error(names, count):
    with pytest.raises(main.HostError, match=f"{count} instance.* {len(names)} hosts"):
        main.host_addresses(names, count)


def test_unreachable_ssh_host_is_named_with_reason(fake_ssh):
    main.check_hosts(["localhost", "other"])
    with pytest.raises(main.HostError, match="reach nowhere: ssh: Could not resolve hostname"):
        main.check_hosts(["localhost", "nowhere"])


def test_without_ssh_there_are_no_other_hosts(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(main.HostError, match="other is not this machine, and there is no ssh"):
        main.check_hosts(["other"])


@pytest.mark.parametrize(
    "names, words", [(["a", "a"], "names a twice"), (["-oProxyCommand=x"], "is not the name")]
)
def test_names_that_are_no_hosts_are_errors(names, words, fake_ssh):
    with pytest.raises(main.HostError, match=words):
        main.check_hosts(names)


def test_command_elsewhere_has_its_arguments_variables_and_folder(fake_ssh, tmp_path, monkeypatch):
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--a 'b' $HOME")
    monkeypatch.setenv("SECRET", "not passed on")
    program = "import os, sys; print(os.getcwd(), sys.argv[1:], os.environ.get('SECRET'))"
    program += "; print(os.environ['TF_POPLAR_FLAGS'], os.environ['A']); sys.exit(7)"
    words = [sys.executable, "-c", program, "two words", "$HOME; 'x' \"y\"", "*"]
    command = main.host_command("other", words, {"A": "1"})
    process = _start(command)
    out = process.stdout.read()
    arguments = ["two words", "$HOME; 'x' \"y\"", "*"]
    assert out.splitlines() == [f"{folder} {arguments} None", "--a 'b' $HOME 1"]
    assert process.wait() == 7 and command.holds_input
    process.communicate()


def test_what_runs_elsewhere_ends_with_its_ssh(fake_ssh):
    """The standard input is closed when ssh ends, and then the session there is."""
    script = "sleep 60 & echo $!; wait"
    command = main.host_command("other", ["sh", "-c", script], {})
    process = _start(command)
    sleeping = int(process.stdout.readline())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)  # the output has its end when all that print have ended
    assert not _runs(sleeping)


def test_a_command_here_is_run_as_it_is(monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    command = main.host_command("localhost", ["sh", "-c", "x"], {"A": "1"})
    assert command.words == ["sh", "-c", "x"] and not command.holds_input
    assert command.variables == {**os.environ, "A": "1", "PYTHONUNBUFFERED": "1"}


def test_what_the_user_set_stays_set(monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "")
    assert main.host_command("localhost", ["sh"], {}).variables["PYTHONUNBUFFERED"] == ""


def test_remote_script_is_one_word_for_any_shell():
    command = main.host_command("other", ["x"], {})
    assert len(shlex.split(command.words[-1])) == 3


def _start(command: main.Command) -> subprocess.Popen[str]:
    """Starts the command of a host."""
    return subprocess.Popen(
        command.words,
        env=dict(command.variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _runs(pid: int) -> bool:
    """Whether a process is there, or will not be gone in a moment."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":
            return False
        time.sleep(0.01)
    return True
