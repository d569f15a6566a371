"""The command `gc-info`: prints the simulated machine in the form of the original's tool."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tensorflow_ipu.cli import console, devices
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.configs.machine import Machine

_TOOL = "gc-info"
_NOTE = "gc-info: of the machine that tensorflow_ipu simulates; no hardware is looked for"

_EXAMPLES = (
    ("gc-info --list-devices", "all devices: single IPUs and configurations of several"),
    ("gc-info --device-info --device-id 24", "the IPUs of one device"),
    ("gc-info --ipu-count", "a number for scripts: how many IPUs there are"),
)

# Commands of the original that look into a chip.
_HARDWARE = (
    "--tile-overview",
    "--tile-status",
    "--dump-mem",
    "--xb-status",
    "--gsp-status",
    "--pci-status",
)


def parser() -> Parser:
    """Returns the parser of the command line."""
    result = Parser(
        prog=_TOOL,
        description="Shows what IPUs there are: those of the simulated machine, whose chip "
        "TENSORFLOW_IPU_CHIP names.",
    )
    result.examples = _EXAMPLES
    group = result.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "-l",
        "--list-devices",
        "--list-all-devices",
        action="store_true",
        help="list all devices",
    )
    group.add_argument(
        "-i", "--device-info", action="store_true", help="show the attributes of a device's IPUs"
    )
    group.add_argument("--ipu-count", action="store_true", help="how many IPUs there are")
    group.add_argument("--ipu-arch", action="store_true", help="architecture of a device's IPUs")
    group.add_argument(
        "--tile-clock-speed", action="store_true", help="clock of the tiles of a device"
    )
    result.add_argument(
        "-d", "--device-id", type=int, default=0, metavar="ID", help="the device; 0 by default"
    )
    result.add_argument(
        "--all-partitions", action="store_true", help="changes nothing: there is one partition"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the requested facts, and on the standard error that they are simulated.

    Args:
        arguments: of the command line; by default the process's.

    Returns:
        0, or 2 if there is no such device or chip.
    """
    words = sys.argv[1:] if arguments is None else arguments
    return console.carried_out(_TOOL, lambda: _run(words))


def _run(arguments: Sequence[str]) -> int:
    """Parses and answers a command line."""
    top = parser()
    refused = [word for word in arguments if word.partition("=")[0] in _HARDWARE]
    if refused:
        top.error(f"{refused[0]} looks into a chip, and there is none: the machine is simulated")
    options = top.parse_args(arguments)
    try:
        machine = Machine(devices.chip_named(None))
        found = devices.attributes(machine, options.device_id)
    except ValueError as error:
        return console.refuse(_TOOL, error)
    print(_NOTE, file=sys.stderr)
    if options.list_devices:
        print(machine.listing())
    elif options.device_info:
        print(devices.attributes_text(found))
    elif options.ipu_count:
        print(machine.num_ipus)
    else:
        print(found[0]["ipu architecture" if options.ipu_arch else "clock"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
