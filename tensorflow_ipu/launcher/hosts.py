"""Where instances run: on this machine, or on hosts that ssh reaches."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence

from tensorflow_ipu.launcher import environment
from tensorflow_ipu.launcher.supervisor import GRACE, Command

LOCAL = ("localhost", "127.0.0.1")
#: Port of the first instance on another host, where it is not known which ports are free.
FIRST_PORT = 25000
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
# Seconds that a try of ssh may take: to connect, and then to log in.
_LOGIN = 30
# Variables of the environment here that an instance on another host needs, by name or prefix.
_PASSED = ("PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", environment.COLLECTIVE_TIMEOUT)
_PASSED_FAMILIES = ("PYTHON", "TF_", "POPLAR_", "IPU_")
# Output of a program is shown when it is printed, though it is not on a terminal.
_DEFAULTS = {"PYTHONUNBUFFERED": "1"}

# Runs a command in a session of its own, while the standard input of this script is open: ssh
# closes it when it ends, for any reason. Descriptor 3, since a shell gives background commands an
# empty standard input.
_REMOTE = """cd {folder} || exit 2
exec 3<&0
setsid env {command} </dev/null &
instance=$!
{{
cat <&3
kill -s TERM -- -$instance
sleep {grace:.0f}
kill -s KILL -- -$instance
}} >/dev/null 2>&1 &
watch=$!
wait $instance
code=$?
kill $watch
exit $code"""


class HostError(ValueError):
    """A host cannot be used."""


def addresses(hosts: Sequence[str], count: int) -> list[str]:
    """Returns `host:port` for each instance: as many in a row on each host.

    Args:
        hosts: the hosts.
        count: instances, a multiple of the number of hosts.

    Raises:
        HostError: the instances cannot be divided evenly.
    """
    if not hosts or count % len(hosts):
        raise HostError(
            f"{count} instance(s) cannot be divided evenly among {len(hosts)} hosts: change "
            "--num-instances or --host."
        )
    each = count // len(hosts)
    alone = all(is_local(host) for host in hosts)
    found = []
    for host in hosts:
        if is_local(host):
            # Other hosts reach this one by its name.
            name = host if alone else socket.gethostname()
            found += [f"{name}:{port}" for port in _free_ports(each)]
        else:
            found += [f"{host}:{FIRST_PORT + number}" for number in range(each)]
    return found


def is_local(host: str) -> bool:
    """Returns whether a host is this machine.

    Args:
        host: its name or address.
    """
    return host in (*LOCAL, socket.gethostname())


def check(hosts: Sequence[str]) -> None:
    """Checks that commands can be run on all hosts.

    Args:
        hosts: the hosts.

    Raises:
        HostError: one is named twice, or is not this machine and ssh does not reach it.
    """
    for number, host in enumerate(hosts):
        if host in hosts[:number]:
            raise HostError(f"--host names {host} twice: name each host once.")
        if not is_local(host):
            _check_reachable(host)


def command(host: str, words: Sequence[str], variables: Mapping[str, str]) -> Command:
    """Returns the command that starts an instance on a host.

    Args:
        host: the host.
        words: a program and its arguments.
        variables: environment variables besides this process's.

    Raises:
        ValueError: the host is this machine, and has no such program.
    """
    environment = {**_DEFAULTS, **os.environ, **variables}
    if is_local(host):
        _check_program(words[0])
        return Command(words, environment)
    passed = {
        name: value
        for name, value in environment.items()
        if name in (*_PASSED, *variables) or name.startswith(_PASSED_FAMILIES)
    }
    script = _REMOTE.format(
        folder=shlex.quote(os.getcwd()),
        command=shlex.join([*(f"{name}={value}" for name, value in passed.items()), *words]),
        grace=GRACE,
    )
    return Command((*_SSH, host, shlex.join(["sh", "-c", script])), os.environ, holds_input=True)


def _check_reachable(host: str) -> None:
    """Logs in once."""
    if host.startswith("-"):
        raise HostError(f"{host!r} is not the name of a host.")
    if shutil.which("ssh") is None:
        raise HostError(f"The host {host} is not this machine, and there is no ssh here.")
    try:
        tried = subprocess.run(
            [*_SSH, host, "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOGIN,
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"ssh does not reach {host}: no answer in {_LOGIN} s.") from None
    if tried.returncode:
        reason = " ".join(tried.stderr.split()) or f"exit code {tried.returncode}"
        raise HostError(f"ssh does not reach {host}: {reason} (It has to work without a password.)")


def _check_program(program: str) -> None:
    """Raises if a program cannot be started, before any instance is."""
    if shutil.which(program) is not None:
        return
    if os.path.isdir(program):
        raise ValueError(f"{program} is a folder; expected a program.")
    if os.path.isfile(program):
        hint = f" Did you mean `python {program}`?" if program.endswith(".py") else ""
        where = "is not executable" if os.sep in program else "is not a command on PATH"
        raise ValueError(f"{program} {where}.{hint}")
    raise ValueError(f"There is no program {program!r}.")


def _free_ports(count: int) -> list[int]:
    """Returns ports that are free now."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            taken = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            taken.bind(("", 0))
            ports.append(int(taken.getsockname()[1]))
        return ports
