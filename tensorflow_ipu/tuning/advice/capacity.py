"""Check whether a plan fits on the chip, with an error or a warning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.configs.flags import CAPACITY_POLICIES
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import IpuMemory, Plan
from tensorflow_ipu.tuning.advice import capacity_text
from tensorflow_ipu.tuning.advice.remedies import Remedy, search

DEFAULT, RAISE, WARN, MARK = CAPACITY_POLICIES


@dataclasses.dataclass(frozen=True)
class CapacityVerdict:
    """The result of a capacity check: whether a plan fits, the action, and remedies.

    Attributes:
        fits: Whether no tile exceeds its memory.
        exact_fits: Whether no tile exceeds its memory with exact resident bytes only, such as
            variables. If not, the program cannot run, without any model.
        action: `raise`, `warn`, or empty for none.
        message: The report; empty without an action.
        remedies: Changes that help, best first; empty without an action.
    """

    fits: bool
    exact_fits: bool
    action: str = ""
    message: str = ""
    remedies: tuple[Remedy, ...] = ()


def check(plan: Plan, policy: str = DEFAULT) -> CapacityVerdict:
    """Checks whether a program fits.

    Args:
        plan: of the program.
        policy: `raise`, `warn`, `mark` (do nothing), or `default`: raise if exact resident bytes
            alone exceed the chip, else warn.

    Returns:
        The verdict, with the report if there is an action.

    Raises:
        ValueError: there is no such policy.
    """
    if policy not in CAPACITY_POLICIES:
        raise ValueError(
            f"Unknown capacity policy {policy!r}: choose one of {', '.join(CAPACITY_POLICIES)}."
        )
    exact_fits = all(int(exact_tiles(ipu).max(initial=0)) <= ipu.capacity for ipu in plan.memory)
    action = _action(plan.fits, exact_fits, policy)
    if not action:
        return CapacityVerdict(plan.fits, exact_fits)
    found = search(plan)
    message = capacity_text.report(plan, exact_fits, found.remedies, found.untried)
    return CapacityVerdict(plan.fits, exact_fits, action, message, found.remedies)


def exact_tiles(memory: IpuMemory) -> np.ndarray:
    """Returns the exact resident bytes on each tile, int64.

    Args:
        memory: of one IPU.
    """
    parts: Sequence[np.ndarray] = [
        category.tiles
        for category in memory.categories
        if category.always_live and category.label is Label.EXACT
    ]
    if not parts:
        return np.zeros(len(memory.peak), np.int64)
    total: np.ndarray = np.sum(parts, axis=0)
    return total


def _action(fits: bool, exact_fits: bool, policy: str) -> str:
    """Returns the action: `raise`, `warn`, or empty for none."""
    if fits and exact_fits:
        return ""
    if policy == DEFAULT:
        return WARN if exact_fits else RAISE
    return "" if policy == MARK else policy
