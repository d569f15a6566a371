"""Rows of the hand-written stencil on Mk1: times of programs, and cycles of a step by phase.

What the rows do not say is in the experiments of github.com/thorbenlouw/lbm-graphcore: their
scripts, the output of the programs, and the sources.
"""

from __future__ import annotations

import re

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import sync_cycles

from ..prediction import Prediction
from ..rows import NotExpressible, Row, checked_size, chip_of
from ..units import of_time
from . import blur, grid
from .blur import Program
from .grid import Part
from .images import image_of

STENCIL, PHASE = "hand-written stencil (Mk1)", "phase of a stencil step (Mk1)"
SYNC = "synchronisation (Mk1)"

# An iteration is two steps: from the image to its copy and back.
_PER_ITERATION = 2
# Rows and columns that a tile has at least where the script gives none, and where it says 1.
_DEFAULT, _ONE = Part(6, 6), Part(1, 1)
# should-i-use-all-ipus/output.txt: the later program with its defaults and `-n 1000`, on an image
# of 2200 x 1122 in float32. A cell and its copy are the 32 bytes.
_CELL = re.compile(r"bytes per cell")
_CELL_ITERATIONS = 1000
# The phases are of the largest image: their sum on one IPU is the time of its program.
_PHASES_IMAGE = Part(1122, 2200)
_PHASES = {
    "compute": "compute",
    "pre": "before",
    "post": "after",
    "exchange": "exchange",
    "globexchange": "links",
}


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is none of these.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    workload = row.workload.lower()
    if "convolution" in workload or "stencil" not in workload and not _CELL.search(workload):
        return None
    metric = re.fullmatch(r"cycles in (\w+)", row.metric.lower())
    if metric is None:
        return _whole(row)
    if metric[1] == "sync":
        return _sync(row)
    return _phase(row, metric[1])


def _sync(row: Row) -> Prediction:
    """The wait of a step."""
    chip = chip_of(row)
    ipus = row.whole("ipus") or 1
    cycles, within = sync_cycles(ipus, chip), sync_cycles(1, chip)
    figure, share = ("sync_cycles", 1.0) if ipus == 1 else ("sync_hop_time", 1 - within / cycles)
    value = of_time(cycles / chip.clock, row, chip)
    return Prediction(row, SYNC, chip, value, True, "", figure, share)


def _whole(row: Row) -> Prediction:
    """The time of a program."""
    chip = chip_of(row)
    program = _program(row)
    iterations = row.whole("iterations")
    if iterations is None:
        if not _CELL.search(row.workload):
            raise NotExpressible("the number of iterations is not given")
        iterations = _CELL_ITERATIONS
    step = _step(program, chip)
    value = of_time(step.cycles * iterations * _PER_ITERATION / chip.clock, row, chip)
    found = grid.over_ipus(program.image, program.ipus)
    pieces = found.pieces if found else 0
    share = blur.BORDER_PIECE_CYCLES * pieces / step.cycles
    name = _configuration(program, chip)
    figure = "cycles of a piece of the border between IPUs"
    return Prediction(row, STENCIL, chip, value, program.ipus > 1, name, figure, share)


def _phase(row: Row, name: str) -> Prediction:
    """Cycles of one phase of a step."""
    if name not in _PHASES:
        raise NotExpressible("a phase of the stencil that is not in the list")
    chip = chip_of(row)
    program = Program(_PHASES_IMAGE, row.whole("ipus") or 1, _ONE, _data(row))
    step = _step(program, chip)
    cycles = getattr(step, _PHASES[name])
    value = of_time(cycles / chip.clock, row, chip)
    figure, share = _figure(name, step, chip)
    return Prediction(row, PHASE, chip, value, bool(figure), "", figure, share)


def _figure(name: str, step: blur.Step, chip: Chip) -> tuple[str, float]:
    """The figure that a phase decided, and its share of the phase's cycles; none for `compute`."""
    if name in ("pre", "post"):
        cycles = step.before if name == "pre" else step.after
        pieces = step.pieces[0 if name == "pre" else 1]
        return "cycles of a piece that is copied", blur.PIECE_CYCLES * pieces / cycles
    if name == "exchange":
        return "exchange_overhead", chip.exchange_overhead / step.exchange
    if name == "globexchange" and step.links:
        return "link_latency", chip.link_latency * chip.clock / step.links
    return "", 0.0


def _program(row: Row) -> Program:
    """The program of a row."""
    ipus = row.whole("ipus") or 1
    rows, columns = row.whole("minrowspertile"), row.whole("mincolspertile")
    image = Part(*reversed(image_of(row)))
    if rows is not None and columns is not None:
        return Program(image, ipus, Part(rows, columns), blur.DATA["float"], earlier=True)
    if _CELL.search(row.workload):
        return Program(image, ipus, _DEFAULT, blur.DATA["float"])
    least = _DEFAULT if "weak scaling" in row.workload.lower() else _ONE
    return Program(image, ipus, least, _data(row))


def _data(row: Row) -> blur.Data:
    """How the program of a row holds cells."""
    found = blur.DATA.get(row.parameters.get("dtype", "").lower())
    if found is None:
        raise NotExpressible("the type of the image's values is not given")
    return found


def _step(program: Program, chip: Chip) -> blur.Step:
    """A step of a program.

    Raises:
        NotExpressible: the program refuses to run so.
    """
    checked_size(program.ipus, "IPUs")
    step = blur.step(program, chip)
    if step is None:
        raise NotExpressible("the image is too large for the IPUs")
    return step


def _configuration(program: Program, chip: Chip) -> str:
    """Returns a program's configuration key: its image, and the parts of tiles and workers."""
    found = grid.over_ipus(program.image, program.ipus)
    tiles = grid.over_tiles(found.part, chip.tiles, program.least) if found else []
    return f"{program._replace(least=_ONE)}: {tiles}"
