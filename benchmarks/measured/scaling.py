"""Fits the reached bandwidth of links and gateways in sums over replicas.

An update takes its mini-batches, the optimizer's arithmetic and state, and the sums of gradients. A
fit takes the runs of some rounds of MLPerf, and varies the two figures of the chip that only the
sums depend on, with a factor for the mini-batches of each model in each round: so how well these
are predicted does not enter the figures. What leaving one configuration out changes shows how far
the fit can be trusted, and so do fits to each round alone: one is on GC200, one on Bow. The round
before them, of an older SDK, is fitted by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import DEFAULT, Chip
from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.releases import CURRENT, SDK_2_1
from tensorflow_ipu.planner.time.transfers import COLLECTIVE, merged

from . import training, whole_models
from .configuration import Configuration, configuration
from .models.distributed_norms import is_of_norm
from .prediction import Prediction
from .rows import NotExpressible

#: Head of the table of machines.
SIZES = ("IPUs", "rows", "predicted / measured time")
#: Head of the table of fits.
HEAD = ("figure", "fitted to", "runs", "fit", "leaving one out", "taken")

#: Figures of the chip that are fitted.
FIGURES = ("collective_efficiency", "gateway_efficiency")
_LINKS, _GATEWAYS = FIGURES
#: The round of SDK 2.1, and the rounds of 2.3 on GC200 and of 2.5 on Bow.
OLD, MIDDLE, NEW = (f"MLPerf Training {name}" for name in ("v1.0", "v1.1", "v2.0"))
#: The rounds that the figures of the current release are fitted to.
FITTED = (MIDDLE, NEW)
_STEPS = 30
_SMALL = 1e-4


def by_size(predictions: Sequence[Prediction]) -> list[tuple[str, ...]]:
    """Returns the rows of a table of whole models by the number of IPUs, the smallest first.

    Args:
        predictions: of any rows.
    """
    found: dict[int, list[float]] = {}
    for prediction in predictions:
        config = configuration(prediction.row) if _is_model(prediction) else None
        if config is not None:
            ratio = prediction.times[1] / prediction.times[0]
            found.setdefault(config.replicas * config.ipus, []).append(ratio)
    return [
        (str(ipus), str(len(ratios)), f"{np.median(ratios):.2f}")
        for ipus, ratios in sorted(found.items())
    ]


def table(predictions: Sequence[Prediction]) -> list[tuple[str, ...]]:
    """Returns the rows of a table of fits: those that figures were taken from, and the checks.

    Args:
        predictions: of any rows.
    """
    rows = []
    taken_from = {FITTED: CURRENT.with_links(DEFAULT), (OLD,): SDK_2_1.with_links(DEFAULT)}
    for sources in (FITTED, (MIDDLE,), (NEW,), (OLD,)):
        found = fit(predictions, sources)
        for place, name in enumerate(found.figures) if found is not None else ():
            spread = f"{found.low[place]:.2f} to {found.high[place]:.2f}"
            chip = taken_from.get(sources)
            taken = f"{getattr(chip, name):.2g}" if chip else "check"
            rows.append(
                (
                    f"`{name}`",
                    ", ".join(sources),
                    str(found.runs),
                    f"{found.values[place]:.2f}",
                    spread,
                    taken,
                )
            )
    return rows


class Run(NamedTuple):
    """A configuration that was measured, apart from its sums.

    Args:
        config: the configuration.
        source: the round.
        measured: seconds of an update, the median of the rows.
        rest: seconds that the plan says, without the sums.
        sizes: bytes of each sum on the IPU with most of them.
    """

    config: Configuration
    source: str
    measured: float
    rest: float
    sizes: tuple[int, ...]

    @property
    def leaves_domain(self) -> bool:
        """Whether the replicas are joined by gateways."""
        return self.config.replicas * self.config.ipus > self.config.chip.link_domain

    def sums(self, chip: Chip) -> float:
        """Returns the seconds of the sums with the figures of a chip."""
        replicas, ipus = self.config.replicas, self.config.ipus
        cycles = (collectives.all_reduce(n, replicas, ipus, chip).cycles for n in self.sizes)
        return sum(cycles) / chip.clock


class Fit(NamedTuple):
    """Figures that fit some runs.

    Args:
        sources: the rounds of the runs.
        figures: names of the figures: those of `FIGURES` that the runs depend on.
        runs: how many there are.
        values: of the figures.
        low: the least of each, leaving any one configuration out.
        high: the most.
        factors: measured / predicted time of mini-batches, by model and round.
    """

    sources: tuple[str, ...]
    figures: tuple[str, ...]
    runs: int
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    factors: dict[tuple[str, str], float]


def fit(predictions: Sequence[Prediction], sources: tuple[str, ...]) -> Fit | None:
    """Returns the figures that fit the runs of some rounds; None for too few runs.

    Args:
        predictions: of any rows.
        sources: the rounds.
    """
    runs = [run for source in sources for run in runs_of(predictions, source)]
    kinds = sorted({_kind(run) for run in runs})
    figures = FIGURES if any(run.leaves_domain for run in runs) else (_LINKS,)
    number = len(figures)
    if len(runs) < number + len(kinds) + 1:
        return None
    found = _solved(runs, kinds, figures)
    others = [
        _solved([*runs[:i], *runs[i + 1 :]], kinds, figures)[:number] for i in range(len(runs))
    ]
    return Fit(
        sources,
        figures,
        len(runs),
        tuple(np.exp(found[:number]).tolist()),
        tuple(np.exp(np.min(others, axis=0)).tolist()),
        tuple(np.exp(np.max(others, axis=0)).tolist()),
        dict(zip(kinds, np.exp(found[number:]).tolist())),
    )


def runs_of(predictions: Sequence[Prediction], source: str) -> list[Run]:
    """Returns the configurations of a round, with their sums apart.

    Args:
        predictions: of any rows.
        source: the round.
    """
    measured: dict[Configuration, list[float]] = {}
    for prediction in predictions:
        if source in prediction.row.source and _is_model(prediction):
            config = configuration(prediction.row)
            if config is not None:
                longer = prediction.times[0] / prediction.times[1]
                measured.setdefault(config, []).append(longer * training.seconds(config))
    return [_run(config, source, float(np.median(found))) for config, found in measured.items()]


def _is_model(prediction: Prediction) -> bool:
    """Whether a row is of a whole model whose configuration is known here."""
    try:
        known = configuration(prediction.row) is not None
    except NotExpressible:
        return False
    return known and whole_models.is_whole_model(prediction)


def _kind(run: Run) -> tuple[str, str]:
    """The model and the round: runs that have the same factor."""
    return run.config.model, run.source


def _run(config: Configuration, source: str, measured: float) -> Run:
    """Takes the sums out of the plan of a configuration."""
    timeline = training.plan(config)
    by_ipu: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    sums = [one for one in timeline.transfers if one.kind == COLLECTIVE and not is_of_norm(one)]
    for ipu in {one.ipu for one in sums}:
        here = [one for one in sums if one.ipu == ipu]
        groups = merged(here, training.MERGED)
        by_ipu[ipu] = [sum(one.num_bytes for one in group) for group in groups]
        spent[ipu] = sum(one.cycles for one in here) / timeline.clock
    most = max(spent, key=lambda ipu: spent[ipu])
    return Run(config, source, measured, timeline.seconds - spent[most], tuple(by_ipu[most]))


def _solved(
    runs: Sequence[Run], kinds: Sequence[tuple[str, str]], figures: Sequence[str]
) -> np.ndarray:
    """Logarithms of the figures, then of the factors: least squares of log ratios, Gauss-Newton."""
    start = [np.log(getattr(runs[0].config.chip, name)) for name in figures]
    point = np.array([*start, *[0.0] * len(kinds)])
    for _ in range(_STEPS):
        errors = _errors(runs, kinds, figures, point)
        slopes = [
            (_errors(runs, kinds, figures, point + _SMALL * unit) - errors) / _SMALL
            for unit in np.eye(len(point))
        ]
        # A little damping, for rows that a figure has no part in.
        step = np.linalg.lstsq(
            np.vstack([np.transpose(slopes), _SMALL * np.eye(len(point))]),
            np.concatenate([-errors, np.zeros(len(point))]),
            rcond=None,
        )[0]
        point = point + np.clip(step, -0.5, 0.5)
        point[: len(figures)] = np.minimum(point[: len(figures)], 0.0)  # parts of a whole
    return point


def _errors(
    runs: Sequence[Run],
    kinds: Sequence[tuple[str, str]],
    figures: Sequence[str],
    point: np.ndarray,
) -> np.ndarray:
    """Logarithms of predicted / measured."""
    number = len(figures)
    values = dict(zip(figures, np.exp(point[:number]).tolist()))
    factors = dict(zip(kinds, np.exp(point[number:]).tolist()))
    seconds = [
        factors[_kind(run)] * run.rest + run.sums(dataclasses.replace(run.config.chip, **values))
        for run in runs
    ]
    found: np.ndarray = np.log(np.array(seconds) / [run.measured for run in runs])
    return found
