"""Groups of rows that are judged together, each with the bounds that it should meet.

The group of a row follows from its text alone, so rows that the model cannot express have one, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from . import convolutions, exchange, products
from .rows import NotExpressible, Row, chip_of


class Bounds(NamedTuple):
    """Upper bounds on the errors of a group, and the least rank correlation.

    Args:
        median: of the median error, 0.1 for 10 %.
        percentile: of the 90th percentile.
        rank: least rank correlation; 0 for any.
    """

    median: float
    percentile: float
    rank: float = 0.0


#: Names of groups.
DENSE = "dense products, Mk2 and Bow"
BATCHED = "batched products"
DENSE_MK1 = "products, Mk1, library mapping"
LINEAR = "products, linear mapping"
CONVOLUTIONS = "convolutions without groups"
GROUPED = "grouped convolutions"
ON_CHIP = "exchange on the chip"
BETWEEN = "exchange between chips"
HOST = "host streams"
ONE_TILE = "vertices on one tile"
EVERY_TILE = "vertices on every tile"
ELEMENTWISE = "elementwise and memory reads"
SPARSE = "sparse products"
IMAGE = "library convolutions of an image"
STENCIL = "hand-written stencils"
WHOLE = "whole models"
TO_TRAIN = "time to train"
ASSUMED = "models, layout assumed"
OTHER = "other programs"

BOUNDS: Mapping[str, Bounds] = {
    DENSE: Bounds(0.06, 0.18, 0.9),
    BATCHED: Bounds(0.12, 0.4, 0.85),
    DENSE_MK1: Bounds(0.12, 0.35, 0.9),
    CONVOLUTIONS: Bounds(0.12, 0.35, 0.93),
    GROUPED: Bounds(0.25, 0.6, 0.9),
    ON_CHIP: Bounds(0.15, 0.4),
    ONE_TILE: Bounds(0.12, 0.35),
    WHOLE: Bounds(0.05, 0.12),
}

_ASSUMED = r"conformer|efficientnet|resnext|rnn-t|vit|unet|swin|dall-e|dino|gps\+\+|graphsage"
_STENCIL = r"stencil|lattice boltzmann|bytes per cell"


def _is_mk1(row: Row) -> bool:
    try:
        return chip_of(row).name == "mk1"
    except NotExpressible:
        return False


def _words(pattern: str) -> Callable[[Row], bool]:
    found = re.compile(pattern)
    return lambda row: found.search(row.workload.lower()) is not None


def _is_program(row: Row) -> bool:
    return "train" in row.metric.lower() and "throughput" not in row.metric.lower()


# The first that a row belongs to counts.
_ORDER: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    (ONE_TILE, _words("vertex.*one tile")),
    (EVERY_TILE, _words(r"on-tile|elementwise \w+ fp")),
    (SPARSE, _words("sparse")),
    (IMAGE, _words("convolution stencil")),
    (STENCIL, _words(_STENCIL)),
    (LINEAR, lambda row: products.knows(row) and products.is_linear(row)),
    (BATCHED, lambda row: products.knows(row) and products.is_batched(row)),
    (DENSE_MK1, lambda row: products.knows(row) and _is_mk1(row)),
    (DENSE, products.knows),
    (GROUPED, lambda row: convolutions.knows(row) and convolutions.is_grouped(row)),
    (CONVOLUTIONS, convolutions.knows),
    (BETWEEN, lambda row: exchange.knows(row) and exchange.is_between(row)),
    (ON_CHIP, exchange.knows),
    (HOST, _words("host to ipu|device-to-host|output tensors")),
    (ELEMENTWISE, lambda row: "elements" in row.parameters or _words("memory read")(row)),
    (TO_TRAIN, lambda row: _words("resnet-50|bert")(row) and _is_program(row)),
    (WHOLE, _words("resnet-50|bert-")),
    (ASSUMED, _words(_ASSUMED)),
)

#: Groups that count for the headline, in the order of tables.
NAMES = (*(name for name, _ in _ORDER), OTHER)


def group_of(row: Row) -> str:
    """Returns the group of a row."""
    return next((name for name, belongs in _ORDER if belongs(row)), OTHER)


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Returns rows by group, in the order of `NAMES`; groups without rows are left out."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(group_of(row), []).append(row)
    return {name: found[name] for name in NAMES if name in found}
