"""The command `poprun`: starts a program as several instances."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tensorflow_ipu.distributed.launcher import options as launcher_options
from tensorflow_ipu.distributed.launcher import supervisor

#: Exit code of a command line that cannot be carried out.
WRONG = 2


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="poprun",
        description="Starts a program as several processes, which run it together.",
        usage="poprun [OPTION ...] PROGRAM [ARGUMENT ...]",
        epilog=launcher_options.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    launcher_options.add(result)
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
        options: those that `options.add` adds, as they were parsed.
        words: the program and its arguments.

    Returns:
        0, or the exit code of the first instance that failed.

    Raises:
        ValueError: the options contradict each other, or a host or the program cannot be used.
        OSError: a program cannot be started.
    """
    if options.offline_mode is not None and words[0] in ("on", "off"):
        raise ValueError(f"Write --offline-mode={words[0]}, with an equals sign.")
    commands = launcher_options.commands(options, words)
    return supervisor.run(commands, options.only_output_from_instance)
