"""The options of a launcher, for `poprun` and for `tensorflow-ipu run`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence

from tensorflow_ipu.launcher import hosts, output
from tensorflow_ipu.launcher.environment import InstanceEnvironment
from tensorflow_ipu.launcher.supervisor import Command

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
{hosts.FIRST_PORT}.

Ignored, with a line that says so:
{textwrap.fill(", ".join(IGNORED), 100, break_on_hyphens=False)}
"""


def add(parser: argparse.ArgumentParser, count: Sequence[str] = ("--num-instances",)) -> None:
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
            output.say(f"{name} is ignored: {reason}.")
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
    addresses = hosts.addresses(found, count)
    hosts.check(found)
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
    command = hosts.command(host, words, variables)
    if options.verbose:
        output.say(f"instance {number} is at {addresses[number]}: {' '.join(words)}")
    if (options.verbose or 0) > 1:
        said = " ".join(f"{name}={value}" for name, value in variables.items())
        output.say(f"instance {number} has {said}")
    return command
