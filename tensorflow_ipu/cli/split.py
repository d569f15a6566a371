"""`tensorflow-ipu split FILE --stages 4`: finds the best cut into pipeline stages."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from tensorflow_ipu.cli import inputs
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning.stages import stage_split
from tensorflow_ipu.tuning.stages.stage_split import Fit
from tensorflow_ipu.util.text import aligned, fitted

_EXAMPLES = (
    ("tensorflow-ipu split before.json --stages 2", "the best cut into two stages"),
    ("tensorflow-ipu split before.json --stages 2 --schedule sequential", "for another schedule"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.examples = _EXAMPLES
    parser.add_argument("file", metavar="FILE", help="report, or its folder")
    parser.add_argument("--stages", type=inputs.whole, required=True, help="number of stages")
    parser.add_argument(
        "--schedule", help="grouped, interleaved or sequential; else that of the program"
    )
    parser.add_argument("--count", type=inputs.count, help="mini-batches for one weight update")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the stages with their cycles and memory."""
    report = inputs.load(options.file)
    workload = report.workload
    splitter = stage_split.Splitter(workload, report.settings, structure.structure(workload))
    fit = stage_split.fitting(splitter, options.stages, options.schedule, options.count)
    print(json.dumps(to_dict(fit), indent=2) if options.json else text(fit))
    return 0


def to_dict(fit: Fit) -> dict[str, Any]:
    """Returns a split as data for JSON.

    Args:
        fit: the cut, and other changes that would fit.
    """
    split, plan = fit.split, fit.split.plan
    return {
        "schedule": split.schedule,
        "count": split.count,
        "balance": split.balance,
        "bubble_share": split.bubble_share,
        "label": split.label.value,
        "fits": plan.fits,
        "cycles": plan.timeline.cycles,
        "stages": [
            {
                "layers": list(stage.layers),
                "forward_cycles": stage.forward,
                "backward_cycles": stage.backward,
                "update_cycles": stage.update,
                "copied_bytes": stage.copied,
                "worst_tile_bytes": memory.worst_bytes,
                "fits": memory.fits,
            }
            for stage, memory in zip(split.stages, plan.memory)
        ],
        "tried": fit.tried,
        "ways_to_fit": [dataclasses.asdict(way) for way in fit.ways],
    }


def text(fit: Fit) -> str:
    """Returns a split as text.

    Args:
        fit: the cut, and other changes that would fit.
    """
    split, plan = fit.split, fit.split.plan
    rows: list[tuple[str, ...]] = [
        ("stage", "layers", "forward", "backward", "update", "copied", "worst tile", "fits")
    ]
    for index, (stage, memory) in enumerate(zip(split.stages, plan.memory)):
        cycles = (f"{n:,.0f}" for n in (stage.forward, stage.backward, stage.update))
        rows.append(
            (
                *(str(index), stage_split.layers(stage.layers), *cycles, f"{stage.copied:,} B"),
                *(f"{memory.worst_bytes:,} B", "yes" if memory.fits else "no"),
            )
        )
    low, high = throughput.interval(plan).of_time(plan.timeline.cycles)
    return "\n".join(
        [
            *aligned(rows, right=range(2, 7), spare=("copied", "update")),
            fitted(
                f"{split.schedule}, {split.count} mini-batches for one update: balance "
                f"{split.balance:.0%} (mean / slowest stage), bubbles {split.bubble_share:.1%}, "
                f"{plan.timeline.cycles:,.0f} cycles a launch ({split.label.value}; {low:,.0f} to "
                f"{high:,.0f} by the spread of measurements)"
            ),
            *_ways(fit),
        ]
    )


def _ways(fit: Fit) -> list[str]:
    """Returns the lines about other changes, for a program of which no cut fits."""
    if fit.split.plan.fits:
        return []
    fullest = fit.split.plan.fullest
    rows = [("instead", "stages", "worst tile", "fits", "cycles", "items/s")]
    for way in fit.ways:
        needed, fits = f"{way.worst_bytes:,} B", "yes" if way.fits else "no"
        speed = (f"{way.cycles:,.0f}", f"{way.items_per_second:,.1f}")
        rows.append((way.name, str(way.stages), needed, fits, *speed))
    tried = f"{fit.tried} cuts were tried and none fits" if fit.tried > 1 else "It does not fit"
    return [
        fitted(
            f"{tried}: a tile holds {fullest.capacity:,} B, and the fullest one has "
            f"{fullest.worst_bytes:,} B."
        ),
        *(aligned(rows, right=(1, 2, 4, 5)) if fit.ways else []),
    ]
