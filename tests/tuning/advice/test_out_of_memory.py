"""Tests of the capacity check and its report, with plans whose numbers are known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Category
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.advice import out_of_memory
from tests.support.planner.layered_workloads import dense
from tests.support.planner.workloads import pipelines, workloads

# Six matrices of 1 MiB and as much momentum: 12 MiB.
WORKLOAD = dense([512] * 7, batch=16)


def _plan(tiles):
    return planning.plan(WORKLOAD, Settings(chip=chips.MK2.with_tiles(tiles)))


@pytest.fixture(scope="module")
def plans():
    """Plans in which it fits, fits but for the rest, and in which not even variables fit."""
    return {"fits": _plan(128), "warns": _plan(22), "raises": _plan(8)}


@pytest.mark.parametrize(
    ("plan", "policy", "action"),
    [
        *[("fits", policy, "") for policy in ("default", "raise", "warn", "mark")],
        ("warns", "default", "warn"),
        ("warns", "raise", "raise"),
        ("warns", "warn", "warn"),
        ("warns", "mark", ""),
        ("raises", "default", "raise"),
        ("raises", "raise", "raise"),
        ("raises", "warn", "warn"),
        ("raises", "mark", ""),
    ],
)
def test_each_policy_decides_on_the_action(plans, plan, policy, action):
    verdict = out_of_memory.check(plans[plan], policy)
    assert verdict.action == action
    assert bool(verdict.message) == bool(action)
    assert verdict.fits == (plan == "fits")
    assert verdict.exact_fits == (plan != "raises")


def test_exact_part_is_the_variables(plans):
    """12 MiB on 8 tiles: 1.5 MiB each, which is more than 624 KiB."""
    (memory,) = plans["raises"].memory
    tiles = out_of_memory.exact_tiles(memory)
    assert int(tiles.sum()) == 12 * 2**20
    assert int(tiles.max()) == 12 * 2**20 // 8


def test_a_chip_without_exact_parts_has_none(plans):
    (memory,) = plans["fits"].memory
    none = tuple(c._replace(label=Label.MODELLED) for c in memory.categories)
    assert out_of_memory.exact_tiles(dataclasses.replace(memory, categories=none)).sum() == 0


def test_the_limit_itself_fits(plans):
    (memory,) = plans["fits"].memory
    full = np.full(len(memory.peak), memory.capacity, np.int64)
    category = Category("variables", True, full, Label.EXACT)
    exactly = dataclasses.replace(memory, categories=(category,), peak=full)
    plan = dataclasses.replace(plans["fits"], memory=(exactly,))
    assert out_of_memory.check(plan, "raise").action == ""
    more = category._replace(tiles=full + 1)
    over = dataclasses.replace(memory, categories=(more,), peak=full + 1)
    plan = dataclasses.replace(plans["fits"], memory=(over,))
    assert out_of_memory.check(plan).action == "raise"


def test_the_report_names_ipu_tiles_and_tensors(plans):
    plan = plans["raises"]
    text = out_of_memory.check(plan).message
    head = text.split("\n\n")[0]
    assert "is out of memory on IPU 0 of 1 (Mk2 (GC200)): 8 of 8 tiles have more than" in head
    assert "638,976 B" in head
    assert f"Worst tile {plan.fullest.worst_tile}: {plan.fullest.worst_bytes:,} B of" in head
    assert "no model is needed" in head
    assert "no model is needed" not in out_of_memory.check(plans["warns"]).message
    rows = {line.split("  ")[1]: line for line in text.splitlines() if line.startswith("  ")}
    assert rows["variables"].split() == [
        "variables", "always", "6", "MiB", f"{6 * 2**20 // 8:,}", "B", "exact",
    ]  # fmt: skip
    tensors = text.split("Largest live tensors")[1].split("\n\n")[0]
    assert "dense0/kernel" in tensors
    assert "1 MiB" in tensors
    assert "model.py:" in tensors


def test_remedies_are_in_the_report_in_their_order(plans):
    verdict = out_of_memory.check(plans["raises"])
    assert verdict.remedies[0].fits
    text = verdict.message.split("Remedies")[1]
    places = [text.index(f"{i}. {r.name}:") for i, r in enumerate(verdict.remedies, 1)]
    assert places == sorted(places)
    assert f"saves {verdict.remedies[0].saving:,} B" in text


@examples(max_examples=8, deadline=None, derandomize=True)
@given(st.one_of(workloads(), pipelines()))
def test_any_program_can_be_checked(workload):
    plan = planning.plan(workload, Settings(chip=chips.MK1.with_tiles(1)))
    verdict = out_of_memory.check(plan, "raise")
    assert verdict.fits == plan.fits
    assert ("out of memory" in verdict.message) != plan.fits
    assert all(remedy.saving > 0 for remedy in verdict.remedies)


def test_an_unknown_policy_is_refused(plans):
    with pytest.raises(ValueError, match="'rise': choose one of default, raise, warn, mark"):
        out_of_memory.check(plans["fits"], "rise")
