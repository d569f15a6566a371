"""Reads the report of a program with `pva`: writes it as Markdown, and checks it as a CI job does.

`python examples/pva_report.py` trains a small Keras model with `autoReport.all`, opens its
`profile.pop` and prints the report. With `--most-bytes` or `--most-cycles` it fails if a tile has
more, or a launch takes more. `python examples/pva_report.py reports/*/profile.pop` does the same
for reports that are there. docs/pva.md explains the parts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pva

ROWS = 5


class Cycles(pva.ProgramVisitor):
    """Adds up the cycles of IPU 0: of computation by name, of exchange and of the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.cycles = 0  # of the step that is visited
        self.by_name: dict[str, int] = {}
        self.exchange = 0

    def visitOnTileExecute(self, onTileExecute: pva.OnTileExecuteProgram) -> None:
        """Adds the cycles of a computation."""
        before = self.by_name.get(onTileExecute.name, 0)
        self.by_name[onTileExecute.name] = before + self.cycles

    def visitDoExchange(self, doExchange: pva.DoExchangeProgram) -> None:
        """Adds the cycles of an exchange between tiles."""
        self.exchange += self.cycles


def visited(report: pva.Report) -> Cycles:
    """Returns the cycles of a report's steps."""
    visitor = Cycles()
    for step in report.execution.steps:
        visitor.cycles = step.ipus[0].cycles
        step.program.accept(visitor)
    return visitor


def worst_tile(report: pva.Report) -> tuple[int, int]:
    """Returns the number of the fullest tile, and its bytes."""
    sizes = [tile.memory.total.includingGaps for tile in report.compilation.tiles]
    return sizes.index(max(sizes)), max(sizes)


def launch_cycles(report: pva.Report) -> int:
    """Returns the cycles of a launch."""
    return sum(step.ipus[0].cycles for step in report.execution.runs[0].steps)


def markdown(report: pva.Report) -> Iterator[str]:
    """Yields the lines of a report."""
    compilation, cycles = report.compilation, visited(report)
    target, (tile, size) = compilation.target, worst_tile(report)
    yield f"{target.numIPUs} IPU(s) of {target.tilesPerIpu:,} tiles, {report.poplarVersion.string}"
    yield ""
    yield f"* fullest tile: {tile}, {size:,} of {target.bytesPerTile:,} B"
    yield f"* a launch: {launch_cycles(report):,} cycles, {cycles.exchange:,} of them exchange"
    yield f"* compute sets: {compilation.graph.numComputeSets}"
    yield ""
    yield "| computation | cycles |"
    yield "| --- | ---: |"
    ordered = sorted(cycles.by_name.items(), key=lambda item: -item[1])
    for name, taken in ordered[:ROWS]:
        yield f"| {name} | {taken:,} |"
    yield ""
    yield "| category, all tiles | bytes |"
    yield "| --- | ---: |"
    for category in compilation.tiles[0].memory.category:
        total = sum(getattr(t.memory.category, category).total for t in compilation.tiles)
        yield f"| {category} | {total:,} |"


def problems(report: pva.Report, most_bytes: int, most_cycles: int) -> list[str]:
    """Returns the exceeded limits of a report, as sentences.

    Args:
        report: the report.
        most_bytes: how much a tile may have.
        most_cycles: how long a launch may take.
    """
    (tile, size), cycles = worst_tile(report), launch_cycles(report)
    found = []
    if size > most_bytes:
        found.append(f"tile {tile} has {size:,} B, more than {most_bytes:,}")
    if cycles > most_cycles:
        found.append(f"a launch takes {cycles:,} cycles, more than {most_cycles:,}")
    return found


def train(folder: Path) -> Path:
    """Trains a model with reports on; returns the profile of its training program."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.compilation_poplar_options = {
        "autoReport.all": "true",
        "autoReport.directory": str(folder),
    }
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        layers = [tf.keras.layers.Dense(64, "relu", name="hidden"), tf.keras.layers.Dense(10)]
        model = tf.keras.Sequential([tf.keras.Input([32]), *layers])
        model.compile("sgd", "mse", steps_per_execution=4)
        data = tf.data.Dataset.from_tensors((np.ones([16, 32], np.float32), np.ones([16, 10])))
        model.fit(data.repeat(4), epochs=1, verbose=0)
    ipu.config.reset_ipu_configuration()  # writes the number of launches into the report
    (profile,) = folder.glob("*/profile.pop")
    return profile


def main() -> None:
    """Prints and checks reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profiles", nargs="*", metavar="FILE", help="profile.pop of a report")
    parser.add_argument("--most-bytes", type=int, default=sys.maxsize, help="of a tile")
    parser.add_argument("--most-cycles", type=int, default=sys.maxsize, help="of a launch")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.profiles or [train(Path(folder))]:
            report = pva.openReport(str(path))
            print("\n".join(markdown(report)))
            for problem in problems(report, arguments.most_bytes, arguments.most_cycles):
                failed = True
                print(f"FAILED: {problem}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
