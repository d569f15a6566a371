"""IPUs of the simulated machine: the commands `tensorflow-ipu devices` and `gc-info`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence

from tensorflow_ipu.cli import console
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.configs import chips, flags
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.configs.machine import Machine

_EXAMPLES = (
    ("tensorflow-ipu devices", "all configurations of the machine of 16 IPUs"),
    ("tensorflow-ipu devices --device-info 24", "the IPUs of one configuration"),
    ("tensorflow-ipu devices --chip bow --figures", "the figures of a chip with their sources"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.examples = _EXAMPLES
    parser.description = (
        "Lists what programs can attach to: the machine is simulated and has 16 IPUs, whose chip "
        "TENSORFLOW_IPU_CHIP names. `gc-info` prints the same in the words of the original tool."
    )
    parser.add_argument("--chip", help=f"one of {', '.join(chips.names())}")
    parser.add_argument(
        "--device-info", type=int, metavar="ID", help="show what one device of the list is"
    )
    parser.add_argument(
        "--figures", action="store_true", help="show the chip's figures with their sources instead"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the listing of the machine, a device's attributes, or the figures of a chip."""
    machine = Machine(chip_named(options.chip))
    if options.figures:
        print((_figures_json if options.json else _figures_text)(machine.chip))
    elif options.device_info is not None:
        found = attributes(machine, options.device_info)
        print(json.dumps(found, indent=2) if options.json else attributes_text(found))
    else:
        print(_machine_json(machine) if options.json else machine.listing())
    return 0


def chip_named(name: str | None) -> Chip:
    """Returns a chip by name, or the machine's.

    Args:
        name: of the chip; by default the name in TENSORFLOW_IPU_CHIP.

    Raises:
        ValueError: There is no chip of that name.
    """
    return chips.get(name or os.environ.get(flags.CHIP_VARIABLE) or chips.DEFAULT.name)


def attributes(machine: Machine, device: int) -> list[dict[str, str]]:
    """Returns the attributes of the IPUs of a device, with the names of the original's tools.

    Args:
        machine: that has the device.
        device: its id in the listing.

    Returns:
        For each IPU its attributes by name, as far as they are simulated.

    Raises:
        ValueError: There is no such device.
    """
    entry = machine.by_id(device)
    if entry is None:
        last = len(machine.configurations) - 1
        raise ValueError(f"There is no device {device}: expected an id of the list, 0 to {last}.")
    chip = machine.chip
    architecture = next(name for name in chip.aliases if name.startswith("ipu"))
    return [
        {
            "id": str(ipu),
            "target": "PCIe",
            "board type": "simulated",
            "clock": f"{chip.clock / 1e6:.0f}MHz",
            "ipu architecture": architecture,
            "pci id": machine.pci_address(ipu),
            "remote buffers supported": "1",
        }
        for ipu in entry.ipus
    ]


def attributes_text(found: Sequence[Mapping[str, str]]) -> str:
    """Returns attributes as the original's tools print them."""
    lines = []
    for each in found:
        lines += ["Device Info:", *(f"  {name}: {value}" for name, value in each.items())]
    return "\n".join(lines)


def _figures_text(chip: Chip) -> str:
    """Returns a line for each figure, and one for its source."""
    lines = [chip.title]
    for figure in chip.figures():
        lines.append(f"{figure.name}: {figure.value:,} {figure.unit}")
        lines.append(f"    {figure.source.status.value}: {figure.source.text}")
    return "\n".join(lines)


def _figures_json(chip: Chip) -> str:
    figures = {
        figure.name: {
            "value": figure.value,
            "unit": figure.unit,
            "status": figure.source.status.value,
            "source": figure.source.text,
        }
        for figure in chip.figures()
    }
    return json.dumps({"chip": chip.name, "figures": figures}, indent=2)


def _machine_json(machine: Machine) -> str:
    entries = [
        {
            "id": entry.id,
            "ipus": [{"ipu": ipu, "pci_address": machine.pci_address(ipu)} for ipu in entry.ipus],
        }
        for entry in machine.configurations
    ]
    chip = machine.chip
    return json.dumps(
        {
            "chip": chip.name,
            "tiles": chip.tiles,
            "memory_per_tile": chip.memory_per_tile,
            "clock": chip.clock,
            "configurations": entries,
        },
        indent=2,
    )


# --- `gc-info`, in the form of the original's tool ---

_TOOL = "gc-info"


_NOTE = "gc-info: of the machine that tensorflow_ipu simulates; no hardware is looked for"


_GC_INFO_EXAMPLES = (
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


def gc_info_parser() -> Parser:
    """Returns the parser of the command line."""
    result = Parser(
        prog=_TOOL,
        description="Shows what IPUs there are: those of the simulated machine, whose chip "
        "TENSORFLOW_IPU_CHIP names.",
    )
    result.examples = _GC_INFO_EXAMPLES
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


def gc_info(arguments: Sequence[str] | None = None) -> int:
    """Prints the requested facts, and on the standard error that they are simulated.

    Args:
        arguments: of the command line; by default the process's.

    Returns:
        0, or 2 if there is no such device or chip.
    """
    words = sys.argv[1:] if arguments is None else arguments
    return console.carried_out(_TOOL, lambda: _answer(words))


def _answer(arguments: Sequence[str]) -> int:
    """Parses and answers a command line."""
    top = gc_info_parser()
    refused = [word for word in arguments if word.partition("=")[0] in _HARDWARE]
    if refused:
        top.error(f"{refused[0]} looks into a chip, and there is none: the machine is simulated")
    options = top.parse_args(arguments)
    try:
        machine = Machine(chip_named(None))
        found = attributes(machine, options.device_id)
    except ValueError as error:
        return console.refuse(_TOOL, error)
    print(_NOTE, file=sys.stderr)
    if options.list_devices:
        print(machine.listing())
    elif options.device_info:
        print(attributes_text(found))
    elif options.ipu_count:
        print(machine.num_ipus)
    else:
        print(found[0]["ipu architecture" if options.ipu_arch else "clock"])
    return 0


if __name__ == "__main__":
    sys.exit(gc_info())
