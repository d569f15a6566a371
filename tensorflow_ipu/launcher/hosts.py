"""Where instances run: on this machine, or on hosts that ssh reaches."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence

LOCAL = ("localhost", "127.0.0.1")
# Ports of instances on hosts where it is not known which are free (those that no service has).
_PORTS = range(20000, 30000)
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
# What an instance on another host needs of the environment here.
_PASSED = ("PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH", "TF_POPLAR_FLAGS")


class HostError(Exception):
    """A host cannot be used."""


def addresses(hosts: Sequence[str], count: int) -> list[str]:
    """Returns `host:port` for each instance: as many in a row on each host.

    Args:
        hosts: The hosts.
        count: Instances, a multiple of the number of hosts.

    Raises:
        HostError: If the instances cannot be divided evenly.
    """
    if count % len(hosts):
        raise HostError(
            f"{count} instances cannot be divided evenly among {len(hosts)} hosts: change "
            "--num-instances or --host."
        )
    each = count // len(hosts)
    found = []
    for host in hosts:
        ports = _free_ports(each) if is_local(host) else random.sample(_PORTS, each)
        found += [f"{host}:{port}" for port in ports]
    return found


def is_local(host: str) -> bool:
    """Returns whether a host is this machine.

    Args:
        host: Its name or address.
    """
    return host in (*LOCAL, socket.gethostname())


def _free_ports(count: int) -> list[int]:
    """Returns ports that nobody has now."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            taken = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            taken.bind(("", 0))
            ports.append(int(taken.getsockname()[1]))
        return ports


def check(hosts: Sequence[str]) -> None:
    """Checks that commands can be run on all hosts.

    Args:
        hosts: The hosts.

    Raises:
        HostError: If one is not this machine and ssh does not reach it.
    """
    for host in dict.fromkeys(hosts):
        if is_local(host):
            continue
        if shutil.which("ssh") is None:
            raise HostError(f"The host {host} is not this machine, and there is no ssh here.")
        tried = subprocess.run([*_SSH, host, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            raise HostError(
                f"ssh does not reach {host}: {tried.stderr.strip() or 'no reason given'}. It has "
                "to work without a password."
            )


def on_host(
    host: str, command: Sequence[str], variables: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Returns the command that runs a command on a host, and the environment to run it in.

    Args:
        host: The host.
        command: A program and its arguments.
        variables: Environment variables that it gets beside those of this process.
    """
    if is_local(host):
        return list(command), {**os.environ, **variables}
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    words = [f"{name}={value}" for name, value in {**passed, **variables}.items()]
    remote = shlex.join(["env", *words, *command])
    return [*_SSH, "-tt", host, f"cd {shlex.quote(os.getcwd())} && exec {remote}"], {**os.environ}
