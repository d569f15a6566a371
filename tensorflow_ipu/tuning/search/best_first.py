"""Best-first search for the fastest configuration that fits, within a number of plans.

Single changes are planned first, within half of the plans, then combinations. The objective is
elements per second; a configuration that exceeds the memory gets less. The next candidate is the
one with the highest estimate, made from a plan without its last change (`Guess`). Candidates
that are estimated not to fit are planned last, but extended by further changes. Configurations that
another one beats in memory and in speed are extended last. The search ends at the limit of plans,
or when no candidate is left: it covers a small space completely.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning.search.candidates import Candidates
from tensorflow_ipu.tuning.search.choices import ON_CHIP, Choices, Space, Trial

# --- Estimates of the effect of a change on memory and speed, to order candidates ---

# The numbers decide only the order. All reported numbers of a configuration come from its plan.

# Categories of memory that change together; all others are of the program itself.
_GROUPS = {
    "weights": ("variables", "constants", "gradient accumulators"),
    "state": ("optimizer state",),
    "kept": ("stash", "activations", "inputs"),
    "temporary": ("temporaries", "streamed"),
}


class Guess(NamedTuple):
    """Estimated bytes of the fullest tile and speed of a configuration.

    Args:
        weights: bytes of variables and sums of their gradients.
        state: of the optimizer's state.
        kept: of activations, stashes of a pipeline included.
        temporary: of temporaries of ops.
        rest: of code and the like.
        speed: elements per second.
        ipus: IPUs that are occupied.
        batch: elements of a mini-batch.
        parts: IPUs of a replica.
        pipelined: whether there is a pipeline.
        proportion: availableMemoryProportion of products.
    """

    weights: float
    state: float
    kept: float
    temporary: float
    rest: float
    speed: float
    ipus: float
    batch: int
    parts: int
    pipelined: bool
    proportion: float

    @property
    def memory(self) -> float:
        """Bytes on the fullest tile."""
        return max(1.0, self.weights + self.state + self.kept + self.temporary + self.rest)


def of_plan(plan: Plan) -> Guess:
    """Returns bytes and speed of a planned configuration.

    Args:
        plan: the plan.
    """
    memory, workload = plan.fullest, plan.workload
    tile = memory.worst_tile
    sizes = {category.name: float(category.tiles[tile]) for category in memory.categories}
    groups = {name: sum(sizes.get(n, 0.0) for n in names) for name, names in _GROUPS.items()}
    occupied = throughput.reserved_ipus(workload.ipus)
    return Guess(
        **groups,
        rest=max(0.0, memory.worst_bytes - sum(groups.values())),
        speed=throughput.items_per_second(plan),
        ipus=occupied * plan.settings.replicas,
        batch=workload.batch or 1,
        parts=max(1, workload.ipus),
        pipelined=workload.pipeline is not None,
        proportion=max(0.01, plan.settings.matmul_proportion),
    )


def after(guessed: Guess, choices: Choices, subject: str) -> Guess:
    """Returns the estimate of a configuration with one more change.

    Args:
        guessed: the configuration without it.
        choices: the configuration with it.
        subject: the subject of the change.
    """
    value = getattr(choices, subject)
    return guessed if value is None else _CHANGES[subject](guessed, value)


def _precision(now: Guess, value: Any) -> Guess:
    halves = {name: getattr(now, name) / 2 for name in _GROUPS}
    return now._replace(**halves, speed=1.8 * now.speed)


def _partials(now: Guess, value: Any) -> Guess:
    return now._replace(temporary=0.8 * now.temporary, speed=1.1 * now.speed)


def _batch(now: Guess, value: int) -> Guess:
    times = value / now.batch
    moving = {name: times * getattr(now, name) for name in ("kept", "temporary")}
    # Twice the batch is faster, though seldom twice as fast; updates come less often.
    return now._replace(**moving, speed=now.speed * times**0.35, batch=value)


def _state(now: Guess, value: str) -> Guess:
    if value == ON_CHIP:
        return now._replace(state=now.weights, speed=1.1 * now.speed)
    return now._replace(state=0.0, speed=0.85 * now.speed)


def _weights(now: Guess, value: str) -> Guess:
    return now._replace(weights=0.0, speed=0.5 * now.speed)


def _divided_guess(now: Guess, value: int, **changes: Any) -> Guess:
    """Returns the estimate for another number of IPUs in each replica."""
    sizes = {n: getattr(now, n) * now.parts / value for n in ("weights", "state", "rest")}
    occupied = throughput.reserved_ipus(value) / throughput.reserved_ipus(now.parts)
    made = {**sizes, "ipus": now.ipus * occupied, "parts": value, **changes}
    return now._replace(**made)


def _stages(now: Guess, value: int) -> Guess:
    times = value / now.parts
    speed = now.speed * times * 0.85 ** math.log2(max(1.0, times))
    if now.pipelined:
        return _divided_guess(now, value, speed=speed)
    # Each stage keeps its activations of two mini-batches for each stage; the sums of gradients
    # are new, and the state of the optimizer goes to streaming memory.
    divided = _divided_guess(
        now, value, speed=speed, kept=1.5 * now.kept, state=0.0, pipelined=True
    )
    return divided._replace(weights=2 * divided.weights)


def _shards(now: Guess, value: int) -> Guess:
    kept = now.kept * now.parts / value
    return _divided_guess(now, value, speed=0.9 * now.speed, kept=kept)


def _schedule(now: Guess, value: str) -> Guess:
    kept, speed = {"Sequential": (0.2, 0.5), "Interleaved": (0.7, 0.8)}.get(value, (1.5, 1.2))
    return now._replace(kept=kept * now.kept, speed=speed * now.speed)


def _count(now: Guess, value: float) -> Guess:
    speed = now.speed * value**0.1
    if now.pipelined:
        return now._replace(speed=speed)
    return now._replace(speed=speed, weights=2 * now.weights, state=0.0)


def _recompute(now: Guess, value: bool) -> Guess:
    part = 0.25 if now.pipelined else 0.6
    if value:
        return now._replace(kept=part * now.kept, speed=0.75 * now.speed)
    return now._replace(kept=now.kept / part, speed=now.speed / 0.75)


def _activations(now: Guess, value: str) -> Guess:
    if value == ON_CHIP:
        return now._replace(kept=2 * now.kept, speed=1.1 * now.speed)
    return now._replace(kept=0.5 * now.kept, speed=0.9 * now.speed)


def _matmul(now: Guess, value: float) -> Guess:
    times = min(2.0, value / now.proportion)
    temporary = (0.8 + 0.2 * times) * now.temporary
    return now._replace(temporary=temporary, speed=now.speed * times**0.02)


def _other(now: Guess, value: float) -> Guess:
    times = min(2.0, value / 0.6)
    return now._replace(temporary=(0.9 + 0.1 * times) * now.temporary, speed=now.speed * 0.99)


def _replicas(now: Guess, value: int) -> Guess:
    times = value * throughput.reserved_ipus(now.parts) / now.ipus
    return now._replace(speed=now.speed * times**0.95, ipus=now.ipus * times)


_CHANGES: dict[str, Callable[[Guess, Any], Guess]] = {
    "precision": _precision,
    "partials": _partials,
    "batch": _batch,
    "optimizer_state": _state,
    "weights": _weights,
    "stages": _stages,
    "shards": _shards,
    "schedule": _schedule,
    "count": _count,
    "recompute": _recompute,
    "activations": _activations,
    "matmul_proportion": _matmul,
    "convolution_proportion": _other,
    "slice_proportion": _other,
    "replicas": _replicas,
}


# --- Best-first search for the fastest configuration that fits, within a number of plans ---

# Of the plans, how many at most are of single changes.
_SINGLES = 0.5

# With fewer plans than this, only candidates that are estimated to fit are planned.
_FEW = 4

# Exponent of capacity / memory in the objective of candidates that do not fit.
_EAGERNESS = 2

# By which factor a guess may be wrong, once something that fits is known.
_UNSURE = 1.5

# How many configurations are built upon without a plan for each that is planned.
_UNPLANNED = 100

# One plan in N is reserved for removing changes that turn out to have no effect.
_KEPT_BACK = 8


@dataclasses.dataclass
class Found:
    """The configurations that a search has planned.

    Attributes:
        trials: Planned configurations by their choices; the unchanged program first, if it is
            possible.
        failures: Reasons why configurations are impossible, with the first one for each reason.
        left: Number of candidates that were not planned.
    """

    trials: dict[Choices, Trial] = dataclasses.field(default_factory=dict)
    failures: dict[str, Choices] = dataclasses.field(default_factory=dict)
    left: int = 0


@dataclasses.dataclass(frozen=True, order=True)
class _Waiting:
    """A candidate configuration, ordered by its estimated objective.

    Attributes:
        tier: 0, or 1 for candidates that come last.
        promise: Its estimated objective, negative.
        number: Its place in the order of discovery.
        choices: Its changes.
        guessed: Its estimated memory and speed.
    """

    tier: int
    promise: float
    number: int
    choices: Choices = dataclasses.field(compare=False)
    guessed: Guess = dataclasses.field(compare=False)


class Search:
    """A search among the configurations of one program.

    Args:
        plan: of the program as it is.
        space: the search space.
        candidates: programs of the configurations.
        per_ipu: whether the objective is the speed per IPU, instead of all IPUs'.
        most_items: elements of data that a weight update may be made of; None for any number.
        items: elements of data that a weight update has to be made of; None for any number.
        planned: called with the number of plans so far, and of all at most, after each plan.

    Attributes:
        found: Planned configurations.
    """

    def __init__(
        self,
        plan: Plan,
        space: Space,
        candidates: Candidates,
        per_ipu: bool = False,
        most_items: int | None = None,
        items: int | None = None,
        planned: Callable[[int, int], None] | None = None,
    ) -> None:
        self._plan, self._space, self._candidates = plan, space, candidates
        self._items, self._planned, self._all, self._done = items, planned, 0, 0
        self._per_ipu, self._most_items = per_ipu, most_items
        self.found = Found()
        self._start = Trial(Choices(), plan)
        self._seen: set[Choices] = {Choices()}
        self._waiting: list[_Waiting] = []
        self._left = 0

    def run(self, plans: int, always: Collection[str] = ()) -> Found:
        """Plans configurations.

        Args:
            plans: limit of plans; the plan of the unchanged program does not count.
            always: subjects of which the most promising change is planned first, besides `plans`.

        Returns:
            The planned configurations, the same for equal arguments.
        """
        kept_back = plans // _KEPT_BACK
        self._left = plans - kept_back
        self._try(Choices(), self._plan)
        self._wait(self._start.choices, of_plan(self._plan))
        singles = _each_subject_first(self._waiting)
        promised = _first_of(singles, always)
        self._left += len(promised)
        self._all = plans + len(promised)
        for trial in [self._next(waiting) for waiting in promised]:
            self._build_upon(trial)
        singles = [waiting for waiting in singles if waiting not in promised]
        number = int(_SINGLES * plans) if plans >= _FEW else 0
        first, self._waiting = _divided(singles, number)
        for trial in [self._next(waiting) for waiting in first]:
            self._build_upon(trial)
        self._combine()
        self._left += kept_back
        self._simplify()
        self.found.left = len(self._waiting)
        return self.found

    def value(self, trial: Trial) -> float:
        """Returns the objective of a trial, elements per second, to be as high as possible."""
        return trial.speed / trial.ipus if self._per_ipu else trial.speed

    def ranked(self) -> list[Trial]:
        """Returns the configurations that fit, best first.

        Ties are broken by fewest changes, then by least memory, then by order of planning.
        """
        fitting = [trial for trial in self.found.trials.values() if self._will_do(trial)]
        return sorted(
            fitting, key=lambda t: (-_rounded(self.value(t)), len(t.choices.made()), t.worst)
        )

    def different(self, most: int) -> list[Trial]:
        """Returns the best configurations, without those that only add changes to a better one.

        Args:
            most: limit of configurations.
        """
        shown: list[Trial] = []
        for trial in self.ranked():
            made = set(trial.choices.items())
            if not any(set(better.choices.items()) <= made for better in shown):
                shown.append(trial)
            if len(shown) == most:
                break
        return shown

    def best(self) -> Trial | None:
        """Returns the best configuration that fits; None if none does."""
        ordered = self.ranked()
        return ordered[0] if ordered else None

    def _will_do(self, trial: Trial) -> bool:
        """Returns whether a configuration fits, with an update that is not too large."""
        items = trial.update_items
        enough = self._most_items is None or items <= self._most_items
        return trial.fits and enough and self._items in (None, items)

    def _combine(self) -> None:
        """Plans combinations."""
        later: list[_Waiting] = []
        unplanned = 0
        while self._left > 0 and (self._waiting or later):
            if not self._waiting:  # candidates that did not seem worth a plan
                self._waiting, later = later, []
                unplanned = _UNPLANNED
            first = heapq.heappop(self._waiting)
            if unplanned < _UNPLANNED and not self._seems_worth_it(first.guessed):
                unplanned += 1
                heapq.heappush(later, first)
                self._wait(first.choices, first.guessed)
                continue
            self._build_upon(self._next(first))
            unplanned = 0
        self._waiting += later

    def _seems_worth_it(self, guessed: Guess) -> bool:
        """Returns whether an estimate fits and beats the best known configuration."""
        best = self.best()
        needed = guessed.memory / self._plan.fullest.capacity
        if best is None:
            return needed <= 1
        return needed <= _UNSURE and self._speed(guessed) > self.value(best) / _UNSURE

    def _speed(self, guessed: Guess) -> float:
        """Returns the estimated objective, elements per second."""
        return guessed.speed / guessed.ipus if self._per_ipu else guessed.speed

    def _next(self, waiting: _Waiting) -> Trial | None:
        """Plans a configuration; returns None if it is impossible."""
        self._left -= 1
        return self._counted(self._try(waiting.choices))

    def _counted(self, trial: Trial | None) -> Trial | None:
        """Counts one plan, and reports the progress."""
        self._done += 1
        if self._planned is not None:
            self._planned(self._done, self._all)
        return trial

    def _try(self, choices: Choices, known: Plan | None = None) -> Trial | None:
        """Plans a configuration; `known` is its plan if no other choice has to change for it."""
        try:
            candidate = self._candidates.candidate(choices)
            same = known is not None and candidate.settings == known.settings
            plan = known if known is not None and same else candidate.plan()
        except ValueError as error:
            self.found.failures.setdefault(str(error), choices)
            return None
        trial = Trial(choices, plan, candidate.parts)
        self.found.trials[choices] = trial
        return trial

    def _build_upon(self, trial: Trial | None) -> None:
        """Adds the candidates one change away from a planned configuration."""
        if trial is not None:
            tier = int(self._is_beaten(trial))
            self._wait(trial.choices, of_plan(trial.plan), tier)

    def _wait(self, base: Choices, guessed: Guess, tier: int = 0) -> None:
        """Adds the candidates one change away from a configuration.

        Args:
            base: the configuration.
            guessed: its memory and speed, planned or estimated.
            tier: 1 if the candidates come last.
        """
        capacity = self._plan.fullest.capacity
        for subject, wanted in self._space.neighbors(base):
            choices = self._canonical(wanted)
            if choices is None or choices in self._seen:
                continue
            self._seen.add(choices)
            then = self._guess(guessed, choices, subject)
            promise = self._speed(then) * min(1.0, capacity / then.memory) ** _EAGERNESS
            later = int(bool(tier) or then == guessed)
            number = len(self._seen)
            heapq.heappush(
                self._waiting, _Waiting(later, -_rounded(promise), number, choices, then)
            )

    def _canonical(self, choices: Choices) -> Choices | None:
        """Returns the choices with as many replicas as fit on the IPUs; None if none does."""
        try:
            return self._candidates.canonical(choices)
        except ValueError as error:
            self.found.failures.setdefault(str(error), choices)
            return None

    def _guess(self, guessed: Guess, choices: Choices, subject: str) -> Guess:
        """Returns the estimate of one more change, scaled by its effect alone if that is known."""
        then = after(guessed, choices, subject)
        single = self._canonical(Choices().with_choice(subject, getattr(choices, subject)))
        alone = None if single is None else self.found.trials.get(single)
        if alone is None:
            return then
        if (alone.worst, alone.speed) == (self._start.worst, self._start.speed):
            return guessed
        if not alone.speed or not self._start.speed:
            return then
        return then._replace(speed=guessed.speed * alone.speed / self._start.speed)

    def _is_beaten(self, trial: Trial) -> bool:
        """Returns whether another configuration needs no more memory and is as fast."""
        value = self.value(trial)
        return any(
            other.worst <= trial.worst and self.value(other) >= value
            for other in self.found.trials.values()
            if other is not trial
        )

    def _simplify(self) -> None:
        """Removes changes that do not help the best configuration, within the limit of plans."""
        again = True
        while again:
            again, found = False, self.best()
            for wanted in _without_one(found.choices) if found else ():
                choices = self._canonical(wanted)
                if choices is None or choices in self.found.trials or self._left <= 0:
                    continue
                self._left -= 1
                trial = self._counted(self._try(choices))
                if trial is not None and self.best() is trial:
                    again = True
                    break


def _rounded(number: float) -> float:
    """Returns a number with 9 digits, so that rounding does not decide."""
    return float(f"{number:.9g}")


def _each_subject_first(singles: Sequence[_Waiting]) -> list[_Waiting]:
    """Returns single changes: the best of each subject, then the second of each, ..."""
    places: dict[str, int] = {}
    ordered = []
    for waiting in sorted(singles):
        subject = waiting.choices.made()[0]
        places[subject] = places.get(subject, 0) + 1
        ordered.append((places[subject], waiting))
    return [waiting for _, waiting in sorted(ordered)]


def _first_of(singles: Sequence[_Waiting], subjects: Collection[str]) -> list[_Waiting]:
    """Returns the most promising single change of each subject."""
    found: dict[str, _Waiting] = {}
    for waiting in singles:
        subject = waiting.choices.made()[0]
        if subject in subjects:
            found.setdefault(subject, waiting)
    return list(found.values())


def _divided(waiting: list[_Waiting], number: int) -> tuple[list[_Waiting], list[_Waiting]]:
    """Returns the first candidates, and a heap of the rest."""
    rest = waiting[number:]
    heapq.heapify(rest)
    return waiting[:number], rest


def _without_one(choices: Choices) -> Iterator[Choices]:
    """Yields the choices with one change removed."""
    for name in choices.made():
        yield choices.with_choice(name, None)
