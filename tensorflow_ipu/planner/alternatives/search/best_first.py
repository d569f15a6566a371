"""Finds the fastest configuration that fits, within a number of plans.

Single changes are planned first, as far as half of the plans suffice, then combinations. What is
planned next is what promises most: elements per second, less what it exceeds the memory. What a
change promises is guessed from a plan without it (`guess.py`), and so what is guessed not to fit
is not planned until nothing else is left, but built upon. Configurations that another one beats in
memory and in speed are built upon last. The search ends when there is no plan left to make, or
nothing left to plan: of a small space it sees everything.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Collection, Iterator, Sequence

from tensorflow_ipu.planner.alternatives.search import guess
from tensorflow_ipu.planner.alternatives.search.choices import Choices
from tensorflow_ipu.planner.alternatives.search.maker import Maker
from tensorflow_ipu.planner.alternatives.search.space import Space
from tensorflow_ipu.planner.alternatives.search.trial import Trial
from tensorflow_ipu.planner.plan import Plan

# Of the plans, how many at most are of single changes.
_SINGLES = 0.5
# With fewer plans than this only what is guessed to fit is planned.
_FEW = 4
# How much what does not fit is held back, as a power of the part of it that fits.
_EAGERNESS = 2
# By which factor a guess may be wrong, once something that fits is known.
_UNSURE = 1.5
# How many configurations are built upon without a plan for each that is planned.
_UNPLANNED = 100
# One plan of so many is kept back to take back changes that turn out to do nothing.
_KEPT_BACK = 8


@dataclasses.dataclass
class Found:
    """What a search has found.

    Attributes:
        trials: What was planned, by its choices; first the program as it is, if it can be had.
        failures: Why configurations cannot be had, with the first of them for each reason.
        left: Configurations that were seen and not planned.
    """

    trials: dict[Choices, Trial] = dataclasses.field(default_factory=dict)
    failures: dict[str, Choices] = dataclasses.field(default_factory=dict)
    left: int = 0


@dataclasses.dataclass(frozen=True, order=True)
class _Waiting:
    """A configuration that is not planned, ordered by what it promises.

    Attributes:
        tier: 0, or 1 for what is to wait until nothing else is left.
        promise: How much it promises, negative.
        number: When it was found.
        choices: What is changed.
        guessed: What it may be like.
    """

    tier: int
    promise: float
    number: int
    choices: Choices = dataclasses.field(compare=False)
    guessed: guess.Guess = dataclasses.field(compare=False)


class Search:
    """A search among the configurations of one program.

    Args:
        plan: of the program as it is.
        space: what may be changed.
        maker: makes the programs.
        per_ipu: whether the speed for each IPU counts, not that of all.
        most_items: elements of data that a weight update may be made of; None for any number.
        items: elements of data that a weight update has to be made of; None for any number.
        planned: called with the number of plans so far, and of all at most, after each plan.

    Attributes:
        found: What was planned.
    """

    def __init__(
        self,
        plan: Plan,
        space: Space,
        maker: Maker,
        per_ipu: bool = False,
        most_items: int | None = None,
        items: int | None = None,
        planned: Callable[[int, int], None] | None = None,
    ) -> None:
        self._plan, self._space, self._maker = plan, space, maker
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
            plans: how many at most; the program as it is does not count.
            always: subjects of which the most promising change is planned first, besides `plans`.

        Returns:
            What was found, the same each time.
        """
        kept_back = plans // _KEPT_BACK
        self._left = plans - kept_back
        self._try(Choices(), self._plan)
        self._wait(self._start.choices, guess.of_plan(self._plan))
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
        """Returns what is to be as high as possible: elements per second."""
        return trial.speed / trial.ipus if self._per_ipu else trial.speed

    def ranked(self) -> list[Trial]:
        """Returns the configurations that fit, best first.

        Of equally good ones that with the fewest changes comes first, then that with the least
        memory, then the one that was planned first.
        """
        fitting = [trial for trial in self.found.trials.values() if self._will_do(trial)]
        return sorted(
            fitting, key=lambda t: (-_rounded(self.value(t)), len(t.choices.made()), t.worst)
        )

    def different(self, most: int) -> list[Trial]:
        """Returns the best configurations, without those that only add changes to a better one.

        Args:
            most: how many at most.
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
        """Whether a configuration fits, with an update that is not too large."""
        items = trial.update_items
        enough = self._most_items is None or items <= self._most_items
        return trial.fits and enough and self._items in (None, items)

    def _combine(self) -> None:
        """Plans combinations."""
        later: list[_Waiting] = []
        unplanned = 0
        while self._left > 0 and (self._waiting or later):
            if not self._waiting:  # what did not seem to be worth a plan
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

    def _seems_worth_it(self, guessed: guess.Guess) -> bool:
        """Whether a configuration may fit, and be better than the best that is known."""
        best = self.best()
        needed = guessed.memory / self._plan.fullest.capacity
        if best is None:
            return needed <= 1
        return needed <= _UNSURE and self._speed(guessed) > self.value(best) / _UNSURE

    def _speed(self, guessed: guess.Guess) -> float:
        """What is to be as high as possible, as it is guessed."""
        return guessed.speed / guessed.ipus if self._per_ipu else guessed.speed

    def _next(self, waiting: _Waiting) -> Trial | None:
        """Plans a configuration; None if it cannot be had."""
        self._left -= 1
        return self._counted(self._try(waiting.choices))

    def _counted(self, trial: Trial | None) -> Trial | None:
        """Says that one more plan was made."""
        self._done += 1
        if self._planned is not None:
            self._planned(self._done, self._all)
        return trial

    def _try(self, choices: Choices, known: Plan | None = None) -> Trial | None:
        """Plans a configuration; `known` is its plan if nothing else has to change for it."""
        try:
            made = self._maker.make(choices)
            plan = known if known is not None and made.settings == known.settings else made.plan()
        except ValueError as error:
            self.found.failures.setdefault(str(error), choices)
            return None
        trial = Trial(choices, plan, made.parts)
        self.found.trials[choices] = trial
        return trial

    def _build_upon(self, trial: Trial | None) -> None:
        """Notes what can be built upon a configuration that was planned."""
        if trial is not None:
            tier = int(self._is_beaten(trial))
            self._wait(trial.choices, guess.of_plan(trial.plan), tier)

    def _wait(self, base: Choices, guessed: guess.Guess, tier: int = 0) -> None:
        """Notes what can be built upon a configuration.

        Args:
            base: the configuration.
            guessed: what it is like, planned or guessed.
            tier: 1 if all that is to wait until nothing else is left.
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
        """The choices with as many replicas as there are IPUs for; None if that is none."""
        try:
            return self._maker.canonical(choices)
        except ValueError as error:
            self.found.failures.setdefault(str(error), choices)
            return None

    def _guess(self, guessed: guess.Guess, choices: Choices, subject: str) -> guess.Guess:
        """What one more choice may do: as fast or slow as it was alone, where that is known."""
        then = guess.after(guessed, choices, subject)
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
        """Whether another configuration needs no more memory and is as fast."""
        value = self.value(trial)
        return any(
            other.worst <= trial.worst and self.value(other) >= value
            for other in self.found.trials.values()
            if other is not trial
        )

    def _simplify(self) -> None:
        """Takes changes back that do not help the best configuration, as far as plans are left."""
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
    """A number with 9 digits, so that rounding does not decide."""
    return float(f"{number:.9g}")


def _each_subject_first(singles: Sequence[_Waiting]) -> list[_Waiting]:
    """Single changes: what promises most for each subject, then the second of each, and so on."""
    places: dict[str, int] = {}
    ordered = []
    for waiting in sorted(singles):
        subject = waiting.choices.made()[0]
        places[subject] = places.get(subject, 0) + 1
        ordered.append((places[subject], waiting))
    return [waiting for _, waiting in sorted(ordered)]


def _first_of(singles: Sequence[_Waiting], subjects: Collection[str]) -> list[_Waiting]:
    """The most promising single change of each subject."""
    found: dict[str, _Waiting] = {}
    for waiting in singles:
        subject = waiting.choices.made()[0]
        if subject in subjects:
            found.setdefault(subject, waiting)
    return list(found.values())


def _divided(waiting: list[_Waiting], number: int) -> tuple[list[_Waiting], list[_Waiting]]:
    """The first ones, and a heap of the rest."""
    rest = waiting[number:]
    heapq.heapify(rest)
    return waiting[:number], rest


def _without_one(choices: Choices) -> Iterator[Choices]:
    """Yields what remains when one change is taken back."""
    for name in choices.made():
        yield choices.with_choice(name, None)
