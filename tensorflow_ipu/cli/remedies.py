"""`tensorflow-ipu remedies REPORT`: finds the fastest configuration that fits."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

from tensorflow_ipu.cli import arguments, config_edits, files, progress
from tensorflow_ipu.cli.parsing import Parser
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.tuning.advice import fastest
from tensorflow_ipu.tuning.advice.fastest import Fastest
from tensorflow_ipu.tuning.advice.words import RemedyStep
from tensorflow_ipu.tuning.search.choices import SUBJECTS
from tensorflow_ipu.util.text import fitted

_ENVIRONMENT = """
The environment can do none of this. What it can without a change of the program:
  TENSORFLOW_IPU_CHIP=bow                 a faster chip with the memory of Mk2
  TF_POPLAR_FLAGS=--capacity_policy=mark  runs what does not fit on the chip"""

# The value of --most-items that is no number.
_ANY = "any"

# `/path/train.py:12`
_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+)")


_EXAMPLES = (
    ("tensorflow-ipu remedies before.json --plans 8", "a quick search, of 8 plans"),
    (
        "tensorflow-ipu remedies before.json --plans 8 --most-items any",
        "with any number of elements in a weight update",
    ),
    (
        "tensorflow-ipu remedies before.json --plans 8 --without precision batch",
        "keeps types and batch",
    ),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Plans combinations of changes of the program of a report: precision, batch, "
        "accumulation, recomputation, memory for temporaries, pipeline stages, replicas, and where "
        "optimizer state, weights and activations are. Exits with 1 if nothing fits."
    )
    parser.examples = _EXAMPLES
    parser.add_argument("file", metavar="REPORT", help="report, or its folder")
    parser.add_argument(
        "--ipus", type=arguments.whole, help="IPUs for all replicas; else those it has, or more"
    )
    parser.add_argument("--plans", type=arguments.some, help="plans to make at most, from 1")
    parser.add_argument(
        "--only", nargs="+", metavar="CHANGE", help=f"what may be changed: {', '.join(SUBJECTS)}"
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="CHANGE", help="what may not")
    parser.add_argument(
        "--most-items",
        type=_most_items,
        metavar="N",
        help="elements of data that a weight update may be made of, or any: batch, accumulation "
        "and replicas change it, and with it how a model learns. Without it an update keeps as "
        "many as it has",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="write the options of IPUConfig into the program, where that needs no judgement",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the result of the search, and changes the program if requested."""
    report = files.load(options.file)
    with progress.shown() as show:
        result = fastest.fastest(
            report.plan,
            options.ipus,
            options.plans,
            _subjects(options),
            options.most_items if isinstance(options.most_items, int) else None,
            keep_items=options.most_items is None,
            planned=lambda ipus, done, most: show(
                f"planned {done} of {most} configurations for {ipus} IPU{'s'[: ipus != 1]}"
            ),
        )
    if options.json:
        print(json.dumps(fastest.to_dict(result), indent=2))
    else:
        print(fastest.to_text(result))
    if result.best is None:
        return 1
    if not options.json and result.steps():
        print(fitted(_ENVIRONMENT))
        _edit(report, result, options.apply)
    return 0


def _most_items(text: str) -> int | str:
    """Reads the limit of elements of data of a weight update: a number, or any."""
    return text if text == _ANY else arguments.some(text)


def _subjects(options: argparse.Namespace) -> list[str]:
    """Returns the subjects that may be changed."""
    for name in (*(options.only or ()), *options.without):
        if name not in SUBJECTS:
            raise ValueError(f"Unknown change {name!r}: choose from {', '.join(SUBJECTS)}.")
    return [
        name
        for name in SUBJECTS
        if (options.only is None or name in options.only) and name not in options.without
    ]


def _edit(report: Report, result: Fastest, write: bool) -> None:
    """Prints the options that can be written into the program, and writes them if requested."""
    steps = result.steps()
    wanted, by_hand = _divided(steps)
    place = _PLACE.fullmatch(str(report.options.get("configured_at", "")))
    if not wanted:
        reason = "none of the changes is an option of IPUConfig alone"
    elif place is None:
        reason = "the report does not say where the program calls configure_ipu_system"
    else:
        try:
            edit = config_edits.edit(Path(place["file"]), int(place["line"]), wanted)
        except (OSError, ValueError) as error:
            reason = str(error)
        else:
            _show(edit, write)
            _say_rest(by_hand)
            return
    print(fitted(f"\nNothing can be written into the program: {reason}."))


def _divided(steps: Sequence[RemedyStep]) -> tuple[dict[str, str], list[str]]:
    """Returns options to write into the program, and the names of the other steps.

    A number of IPUs goes with stages and shards: before the program has these it would mean
    replicas.
    """
    wanted: dict[str, str] = {}
    by_hand = []
    for step in steps:
        if step.lines:
            by_hand.append(step.name)
        else:
            wanted.update(step.options)
    if any("auto_select_ipus" in step.options for step in steps if step.lines):
        wanted.pop("auto_select_ipus", None)
    return wanted, by_hand


def _show(edit: config_edits.Edit, write: bool) -> None:
    difference = edit.difference()
    if not difference:
        print(f"\n{edit.path} has these options already.")
        return
    print(f"\n{difference}")
    if write:
        edit.write()
        print(f"wrote {edit.path}")
    else:
        print("--apply writes this.")


def _say_rest(by_hand: Sequence[str]) -> None:
    if by_hand:
        names = ", ".join(by_hand)
        print(fitted(f"Left to do by hand, without which the program may not fit: {names}."))
