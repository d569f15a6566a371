"""From rows to predictions: each row goes to the first predictor that knows its workload."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple, Optional

from . import (
    convolutions,
    elementwise,
    exchange,
    host,
    memory,
    on_tile,
    products,
    sparse,
    tile_vertices,
    whole_models,
)
from .implausible import implausible
from .models import assumed
from .prediction import Prediction
from .rows import NotExpressible, Row
from .stencil import hand_written, library

Predictor = Callable[[Row], Optional[Prediction]]

_PREDICTORS: tuple[Predictor, ...] = (
    on_tile.predict,
    library.predict,
    hand_written.predict,
    memory.predict,
    sparse.predict,
    tile_vertices.predict,
    products.predict,
    convolutions.predict,
    elementwise.predict,
    exchange.predict,
    host.predict,
    assumed.predict,
    whole_models.predict,
)

_UNKNOWN = "no program for this workload"
# What the model does not claim to know, and no predictor has taken.
_LATENCY = "the latency of a single access or message is not modelled"
# What the chip has no part in, or what the model does not claim to know, by words of the metric.
_NOT_MODELLED = {
    "compile time": "time of the host's compiler",
    "power": "power is not modelled",
    "compute time": _UNKNOWN,
    "share of cycles": "the program is not given",
}


class Outcome(NamedTuple):
    """Predictions and refusals of a set of rows.

    Args:
        predictions: of those that the model can express.
        refused: the others, with reasons.
    """

    predictions: list[Prediction]
    refused: list[tuple[Row, str]]


def predict(rows: Iterable[Row]) -> Outcome:
    """Predicts all rows that the model can express. A failing row does not stop the others."""
    outcome = Outcome([], [])
    rows = list(rows)
    left_out = implausible(rows)
    for place, row in enumerate(rows):
        if place in left_out:
            outcome.refused.append((row, left_out[place]))
            continue
        try:
            outcome.predictions.append(_predict(row))
        except NotExpressible as reason:
            outcome.refused.append((row, str(reason)))
        except Exception as error:  # noqa: BLE001 - rows come from anywhere
            print(f"line {row.line}: {type(error).__name__}: {error}", file=sys.stderr)
            outcome.refused.append((row, f"the model fails with {type(error).__name__}"))
    return outcome


def _predict(row: Row) -> Prediction:
    """Predicts one row.

    Raises:
        NotExpressible: the model cannot.
    """
    for word, reason in _NOT_MODELLED.items():
        if word in row.metric.lower():
            raise NotExpressible(reason)
    if row.value == 0:
        raise NotExpressible("a measurement of 0 has no relative error")
    for predictor in _PREDICTORS:
        prediction = predictor(row)
        if prediction is None:
            continue
        if not 0 < prediction.value < math.inf or not prediction.error < math.inf:
            raise NotExpressible("nothing to compute, or out of the range of numbers")
        return prediction
    raise NotExpressible(_LATENCY if "latency" in row.metric.lower() else _UNKNOWN)
