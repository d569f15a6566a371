"""`tensorflow-ipu whatif FILE --chip bow ...`: plans a program for other settings."""

from __future__ import annotations

import argparse
import json

from tensorflow_ipu.cli import inputs
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.tuning import what_if

# Option, name of the change, type of its values, help text.
_CHANGES = (
    ("chip", "chip", str, "mk1, mk2 or bow"),
    ("tiles", "tiles", inputs.whole, "tiles of each IPU"),
    ("replicas", "replicas", inputs.whole, "copies of the program, in all instances"),
    ("instances", "instances", inputs.whole, "processes that have the replicas"),
    ("batch", "batch", inputs.whole, "elements of a mini-batch"),
    ("schedule", "schedule", str, "grouped, interleaved or sequential"),
    ("stages", "stages", inputs.whole, "pipeline stages, each on an IPU"),
    ("count", "count", inputs.count, "mini-batches for one weight update of a pipeline"),
    ("recompute", "recompute", str, "yes or no: make activations again"),
    ("io-tiles", "io_tiles", inputs.whole, "tiles of each IPU that only move data"),
    ("proportion", "proportion", float, "availableMemoryProportion of matmuls and convolutions"),
    ("partials", "partials", str, "float16 or float32: type of sums of float16 products"),
)
_TRUE, _FALSE = ("yes", "true", "on", "1"), ("no", "false", "off", "0")

_EXAMPLES = (
    (
        "tensorflow-ipu whatif before.json --chip mk2 bow --batch 16 64",
        "four plans: two chips, two batches",
    ),
    ("tensorflow-ipu whatif before.json --replicas 1 8 --json", "for programs"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Plans the program of a report again. Options take several values: all "
        "combinations are planned."
    )
    parser.examples = _EXAMPLES
    parser.add_argument("file", metavar="FILE", help="report, or its folder")
    for option, name, of_type, meaning in _CHANGES:
        parser.add_argument(
            f"--{option}", dest=name, nargs="+", type=of_type, metavar="VALUE", help=meaning
        )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Prints a line for the program as it is, and one for each combination."""
    report = inputs.load(options.file)
    changes = {
        name: values for _, name, _, _ in _CHANGES if (values := getattr(options, name)) is not None
    }
    if "recompute" in changes:
        changes["recompute"] = [_switch(value) for value in changes["recompute"]]
    now = what_if.outcomes(report.workload, report.settings, {})
    found = what_if.outcomes(report.workload, report.settings, changes) if changes else ()
    if options.json:
        shown = {"now": what_if.to_dicts(now)[0], "outcomes": what_if.to_dicts(found)}
        print(json.dumps(shown, indent=2))
    else:
        print("now:", what_if.to_text(now), sep="\n")
        if found:
            print("\nwith changes:", what_if.to_text(found), sep="\n")
    return 1 if found and all(outcome.error for outcome in found) else 0


def _switch(value: str) -> bool:
    """Reads yes or no."""
    if value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    raise ValueError(f"--recompute takes yes or no, got {value!r}.")
