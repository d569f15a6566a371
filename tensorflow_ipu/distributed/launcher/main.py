"""The command `poprun`: starts a program as several instances."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import textwrap
from collections.abc import Mapping, Sequence

from tensorflow_ipu.distributed.launcher import environment, supervisor
from tensorflow_ipu.distributed.launcher.environment import InstanceEnvironment
from tensorflow_ipu.distributed.launcher.supervisor import GRACE, Command

# --- Hosts ---

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


def host_addresses(hosts: Sequence[str], count: int) -> list[str]:
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


def check_hosts(hosts: Sequence[str]) -> None:
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


def host_command(host: str, words: Sequence[str], variables: Mapping[str, str]) -> Command:
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


# --- Options ---

_MPI = "there is no MPI here"


_PARTITION = "there are no partitions of IPUs here, each instance has IPUs of its own"


#: Options that change nothing, with why.
IGNORED = {
    "--mpi-global-args": _MPI,
    "--mpi-local-args": _MPI,
    "--numa-aware": "the system places processes",
    "--print-topology": "there are no links here but modelled ones",
    "--vipu-partition": _PARTITION,
    "--vipu-allocation": _PARTITION,
    "--vipu-server-host": _PARTITION,
    "--vipu-server-port": _PARTITION,
    "--vipu-server-timeout": _PARTITION,
    "--update-partition": _PARTITION,
    "--remove-partition": _PARTITION,
    "--reset-partition": _PARTITION,
}


_NAMES = (
    "--num-replicas",
    "--ipus-per-replica",
    "--host",
    "--offline-mode",
    "--only-output-from-instance",
    "--verbose",
)


_OFFLINE = (
    ("--offline-mode", True, "compile programs, do not run them; =on says the same"),
    ("--offline-mode=on", True, argparse.SUPPRESS),
    ("--offline-mode=off", False, argparse.SUPPRESS),
)


#: End of the help of `poprun`.
EXAMPLES = f"""examples:
  poprun --num-instances 2 python train.py --epochs 3
      two processes, one replica each
  poprun --num-instances 2 --num-replicas 8 --ipus-per-replica 2 python train.py
      four replicas of two IPUs in each of two processes
  poprun --num-instances 4 --host localhost,other python train.py
      two processes here, two on a host that ssh reaches without a password

Each line that an instance prints has its index in front of it. When one fails, the others are ended
(SIGTERM, and SIGKILL 5 s later), and its exit code is that of poprun: 128 plus the number for a
signal. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 go to all. Instance 0 reads what poprun gets on
its standard input, unless that is a terminal.

PYTHONUNBUFFERED=1 is set unless it is in the environment. All instances on a host share its cores:
where they are in each other's way, TF_NUM_INTRAOP_THREADS says how many threads TensorFlow takes in
each. Other hosts have the same folders and programs as this one; their ports are those from
{FIRST_PORT}.

Ignored, with a line that says so:
{textwrap.fill(", ".join(IGNORED), 100, break_on_hyphens=False)}
"""


def add_options(
    parser: argparse.ArgumentParser, count: Sequence[str] = ("--num-instances",)
) -> None:
    """Adds the options to a parser.

    Args:
        parser: of a command line.
        count: names of the option that says how many instances there are.
    """
    group = parser.add_argument_group("instances")
    add_to = group.add_argument
    add_to(*count, dest="num_instances", type=positive, metavar="N", help="processes to start")
    add_to(
        "--num-replicas", type=positive, metavar="N", help="of all processes (default: 1 in each)"
    )
    add_to("--ipus-per-replica", type=positive, metavar="N", help="IPUs of a replica (default: 1)")
    add_to("--host", metavar="A,B", help="hosts to run on (default: this one)")
    # The value is part of the name, so that the word after a bare option is the program.
    for name, value, text in _OFFLINE:
        add_to(name, dest="offline_mode", action="store_const", const=value, help=text)
    add_to(
        "--only-output-from-instance", type=index, metavar="K", help="pass on what K prints only"
    )
    add_to("-v", "--verbose", action="count", help="say where instances run; -vv: and with what")
    for name in IGNORED:
        add_to(name, metavar="=...", help=argparse.SUPPRESS)


def without_number(options: argparse.Namespace) -> list[str]:
    """Returns the options that were given, without the number of instances.

    Args:
        options: as they were parsed.
    """
    given = [name for name in _NAMES if getattr(options, _attribute(name)) is not None]
    return given + [name for name in IGNORED if getattr(options, _attribute(name)) is not None]


def commands(options: argparse.Namespace, words: Sequence[str]) -> list[Command]:
    """Returns the command that starts each instance.

    Args:
        options: as they were parsed.
        words: the program and its arguments.

    Raises:
        ValueError: the options contradict each other, or a host or the program cannot be used.
    """
    for name, reason in IGNORED.items():
        if getattr(options, _attribute(name)) is not None:
            supervisor.say(f"{name} is ignored: {reason}.")
    count = options.num_instances or 1
    replicas = options.num_replicas or count
    if replicas % count:
        raise ValueError(
            "--num-replicas counts the replicas of all instances, so it is a multiple of "
            f"--num-instances, {count}; received {replicas}."
        )
    shown = options.only_output_from_instance
    if shown is not None and shown >= count:
        raise ValueError(
            f"--only-output-from-instance is less than --num-instances, {count}; received {shown}."
        )
    found = [name.strip() for name in (options.host or "localhost").split(",") if name.strip()]
    addresses = host_addresses(found, count)
    check_hosts(found)
    each = count // len(found)
    return [
        _command(options, words, found[number // each], number, replicas, addresses)
        for number in range(count)
    ]


def positive(text: str) -> int:
    """Reads a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def index(text: str) -> int:
    """Reads a whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _attribute(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _command(
    options: argparse.Namespace,
    words: Sequence[str],
    host: str,
    number: int,
    replicas: int,
    addresses: Sequence[str],
) -> Command:
    instance = InstanceEnvironment(
        count=len(addresses),
        index=number,
        total_replicas=replicas,
        ipus_per_replica=options.ipus_per_replica or 1,
        addresses=tuple(addresses),
        offline=bool(options.offline_mode),
    )
    variables = instance.variables()
    command = host_command(host, words, variables)
    if options.verbose:
        supervisor.say(f"instance {number} is at {addresses[number]}: {' '.join(words)}")
    if (options.verbose or 0) > 1:
        said = " ".join(f"{name}={value}" for name, value in variables.items())
        supervisor.say(f"instance {number} has {said}")
    return command


# --- The command `poprun`: starts a program as several instances ---

#: Exit code of a command line that cannot be carried out.
WRONG = 2


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="poprun",
        description="Starts a program as several processes, which run it together.",
        usage="poprun [OPTION ...] PROGRAM [ARGUMENT ...]",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_options(result)
    result.add_argument("program", metavar="PROGRAM", help="an executable, such as python")
    result.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="its arguments"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a program as the command line says.

    Args:
        arguments: of the command line; by default the process's.

    Returns:
        0, the exit code of the first instance that failed, or 2 if none could be started.
    """
    options = parser().parse_args(arguments)
    try:
        return launch(options, [options.program, *options.arguments])
    except KeyboardInterrupt:  # before there was anything to forward it to
        return 130
    except (OSError, ValueError) as error:
        supervisor.say(" ".join(str(error).split()))
        return WRONG


def launch(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Starts the instances, and waits for them.

    Args:
        options: those that `add_options` adds, as they were parsed.
        words: the program and its arguments.

    Returns:
        0, or the exit code of the first instance that failed.

    Raises:
        ValueError: the options contradict each other, or a host or the program cannot be used.
        OSError: a program cannot be started.
    """
    if options.offline_mode is not None and words[0] in ("on", "off"):
        raise ValueError(f"Write --offline-mode={words[0]}, with an equals sign.")
    lines = commands(options, words)
    return supervisor.run(lines, options.only_output_from_instance)
