"""The command line of `poprun`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tensorflow_ipu.launcher import hosts
from tensorflow_ipu.launcher.environment import InstanceEnvironment
from tensorflow_ipu.launcher.supervisor import Command, Supervisor

#: Exit code of a command line that cannot be carried out.
WRONG = 2


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="poprun",
        description="Starts a program as several processes, which train it together.",
        usage="poprun [OPTION ...] PROGRAM [ARGUMENT ...]",
    )
    add = result.add_argument
    add("--num-instances", type=_positive, default=1, help="processes to start (default: 1)")
    add("--num-replicas", type=_positive, help="replicas of all of them (default: one for each)")
    add("--ipus-per-replica", type=_positive, default=1, help="IPUs of each replica (default: 1)")
    add("--host", default="localhost", help="hosts to run on, with commas (default: this one)")
    add("--offline-mode", choices=("on", "off"), default="off", help="compile, do not run")
    add("--mpi-global-args", help="ignored: there is no MPI here")
    add("--mpi-local-args", help="ignored: there is no MPI here")
    add("-v", "--verbose", action="count", default=0, help="say what is started; -vv: and how")
    add("program", help="what to run: an executable, such as python")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="its arguments")
    return result


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a program as the command line says.

    Args:
        arguments: Of the command line; those of the process if not given.

    Returns:
        0, the exit code of the first instance that failed, or 2 if none could be started.
    """
    options = parser().parse_args(arguments)
    try:
        commands = _commands(options)
        return Supervisor(commands).wait()
    except (hosts.HostError, ValueError, OSError) as error:
        print(f"poprun: {error}", file=sys.stderr)
        return WRONG


def _commands(options: argparse.Namespace) -> list[Command]:
    for name in ("mpi_global_args", "mpi_local_args"):
        if getattr(options, name) is not None:
            shown = "--" + name.replace("_", "-")
            print(f"poprun: {shown} is ignored: there is no MPI here.", file=sys.stderr)
    count = options.num_instances
    replicas = options.num_replicas or count
    if replicas % count:
        raise ValueError(
            f"--num-replicas counts those of all instances, and must be a multiple of "
            f"--num-instances, {count}; received {replicas}."
        )
    names = [name.strip() for name in options.host.split(",") if name.strip()]
    hosts.check(names)
    found = hosts.addresses(names, count)
    return [_command(options, index, replicas, found) for index in range(count)]


def _command(
    options: argparse.Namespace, index: int, replicas: int, addresses: Sequence[str]
) -> Command:
    instance = InstanceEnvironment(
        count=options.num_instances,
        index=index,
        total_replicas=replicas,
        ipus_per_replica=options.ipus_per_replica,
        addresses=tuple(addresses),
        offline=options.offline_mode == "on",
    )
    host = addresses[index].rpartition(":")[0]
    words = [options.program, *options.arguments]
    arguments, variables = hosts.on_host(host, words, instance.variables())
    if options.verbose:
        told = f"poprun: instance {index} on {addresses[index]}"
        print(told + (f": {' '.join(arguments)}" if options.verbose > 1 else ""), file=sys.stderr)
    return Command(arguments, variables)
