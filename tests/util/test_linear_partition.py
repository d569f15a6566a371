"""Splitting sequences, against all splits."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.util.linear_partition import SLACK, partition


@pytest.mark.parametrize(
    ("costs", "cuts", "parts", "expected"),
    [
        ([5], [], 1, [0]),
        ([5], [], 3, [0]),
        ([1, 1, 1, 1], [1, 1, 1], 2, [0, 0, 1, 1]),
        ([1, 1, 1, 1], [1, None, 1], 2, [0, 1, 1, 1]),
        ([1, 1, 1, 1], [None, None, None], 4, [0, 0, 0, 0]),
        ([0, 0, 0], [0, 0], 3, [0, 1, 2]),
        # Cheaper one item further, and within the slack.
        ([4, 4, 1, 8], [9, 9, 1], 2, [0, 0, 0, 1]),
    ],
)
def test_cuts_of_small_sequences_by_hand(
    costs: list[int], cuts: list[int | None], parts: int, expected: list[int]
) -> None:
    assert partition(costs, cuts, parts) == expected


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.integers(1, 9).flatmap(
        lambda length: st.tuples(
            st.lists(st.integers(0, 20), min_size=length, max_size=length),
            st.lists(st.none() | st.integers(0, 5), min_size=length - 1, max_size=length - 1),
            st.integers(1, 5),
        )
    )
)
def test_is_the_best_of_all(case: tuple[list[int], list[int | None], int]) -> None:
    costs, cuts, parts = case
    found = partition(costs, cuts, parts)
    assert _rating(costs, cuts, found)[1:] == _best(costs, cuts, parts)
    assert found == sorted(found)
    assert set(found) == set(range(max(found) + 1))


def _rating(costs: list[int], cuts: list[int | None], parts: list[int]) -> tuple[int, int, int]:
    """Heaviest part, price of the cuts, unevenness."""
    loads = [sum(cost for cost, one in zip(costs, parts) if one == part) for part in set(parts)]
    price = sum(cuts[i] or 0 for i in range(len(cuts)) if parts[i] != parts[i + 1])
    return max(loads), price, sum(load * load for load in loads)


def _best(costs: list[int], cuts: list[int | None], parts: int) -> tuple[int, int]:
    allowed = [index for index, cut in enumerate(cuts) if cut is not None]
    parts = min(parts, len(allowed) + 1)
    ratings = [
        _rating(costs, cuts, [sum(cut < i for cut in chosen) for i in range(len(costs))])
        for chosen in itertools.combinations(allowed, parts - 1)
    ]
    limit = int(min(heaviest for heaviest, _, _ in ratings) * SLACK)
    return min(rating[1:] for rating in ratings if rating[0] <= limit)
