"""`tensorflow-ipu devices`: shows the machine that programs attach to."""

from __future__ import annotations

import argparse
import json
import os

from tensorflow_ipu.cli.parsing import Parser
from tensorflow_ipu.configs import chips, flags
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.configs.machine import Machine

_EXAMPLES = (
    ("tensorflow-ipu devices", "all configurations of the machine of 16 IPUs"),
    ("tensorflow-ipu devices --chip bow --figures", "the figures of a chip with their sources"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.examples = _EXAMPLES
    parser.add_argument("--chip", help=f"one of {', '.join(chips.names())}")
    parser.add_argument(
        "--figures", action="store_true", help="show the chip's figures with their sources instead"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the listing of the machine, or the figures of its chip."""
    chip = chips.get(options.chip or os.environ.get(flags.CHIP_VARIABLE) or chips.DEFAULT.name)
    if options.figures:
        print(_figures_json(chip) if options.json else _figures_text(chip))
    else:
        machine = Machine(chip)
        print(_machine_json(machine) if options.json else machine.listing())
    return 0


def _figures_text(chip: Chip) -> str:
    """A line for each figure, and one for its source."""
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
