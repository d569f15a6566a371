"""Collectives on the host between real processes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.processes import instances
from tests.support.processes.collective_calls import BASE, TYPES


@pytest.fixture(scope="module", params=[2, 4])
def outcomes(request):
    return instances.run(["-m", "tests.support.processes.collective_calls"], request.param)


def _reports(outcomes, function):
    """Yields the reports of all instances and modes: index, mode and values."""
    for index, outcome in enumerate(outcomes):
        found = [each for each in outcome.reports if each.get("function") == function]
        assert [each["mode"] for each in found] == ["eager", "function", "session"]
        yield from ((index, each["mode"], each) for each in found)


def test_every_type_is_gathered_reduced_and_broadcast(outcomes):
    count = len(outcomes)
    for index, mode, found in _reports(outcomes, "every_type"):
        for dtype in TYPES:
            values = np.stack([BASE + other for other in range(count)])
            mean = values.sum(0) / count
            want = {
                "gathered": values,
                "sum": values.sum(0),
                "mean": mean if dtype.startswith("float") else np.floor(mean),
                "first": BASE,
            }
            for name, value in want.items():
                got = found[f"{name} {dtype}"]
                assert got.dtype == dtype, (index, mode, name, dtype)
                np.testing.assert_array_equal(got, value, err_msg=f"{index} {mode} {name} {dtype}")
        np.testing.assert_array_equal(found["first bool"], [True, True])


def test_horovod_reduces_gathers_and_broadcasts(outcomes):
    count = len(outcomes)
    total = sum(BASE + other for other in range(count))
    dense = np.zeros([9, 3])
    for other in range(count):
        dense[other] += (BASE + other)[0]
        dense[5] += (BASE + other)[1]
    want = {
        "average": total / count,
        "sum": total,
        "integers": total // count,
        "rows": np.repeat(np.arange(count), np.arange(count))[:, None] * [1, 1],
        "none": np.zeros([0, 2]),
        "of the last": BASE + count - 1,
        "values": np.concatenate([BASE + other for other in range(count)]) / count,
        "indices": np.array([[other, 5] for other in range(count)]).reshape(-1),
        "slices": dense,
    }
    for index, mode, found in _reports(outcomes, "horovod"):
        for name, value in want.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{index} {mode} {name}")


def test_processes_know_their_places(outcomes):
    count = len(outcomes)
    places = [outcome.reports[-2]["place"] for outcome in outcomes]
    assert places == [[count, index, count, index] for index in range(count)]


def test_named_tensors_meet_in_any_order(outcomes):
    count = len(outcomes)
    sums, gathered, first = (
        np.stack([BASE + other + 10 * i for other in range(count)]) for i in range(3)
    )
    want = {"sum": sums.sum(0), "gathered": gathered, "first": first[0]}
    want["after"] = count * (want["first"] + want["sum"])
    for outcome in outcomes:
        found = outcome.reports[-3]
        for name, value in want.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_mismatched_calls_fail_in_all_instances(outcomes):
    """Each learns the layout of another, and later collectives work."""
    layouts = {
        "shapes": ("float[2]", "float[3]"),
        "ranks": ("rows of float[2]", "rows of float[2,2]"),
        "sizes": ("float[262144]", "float[262145]"),
        "types": ("float[2]", "int32[2]"),
        "widths": ("int16[2]", "int32[2]"),
        "rows": ("rows of float[1]", "rows of float[2]"),
        "function": ("float[2]", "float[3]"),
    }
    functions = {"functions": ("IpuInstanceSum", "IpuInstanceBroadcast")}
    total = sum(range(len(outcomes)))
    for outcome in outcomes:
        found = outcome.reports[-1]
        for name, phrases in {**layouts, **functions}.items():
            kind, message = found[name]
            if name in layouts:
                assert kind == "UnknownError", (name, message)
                assert "Tensor layouts did not match on all instances" in message
            else:
                assert kind == "FailedPreconditionError", (name, message)
                assert "The instances do not run the same program" in message
            if len(outcomes) == 2:
                assert all(phrase in message for phrase in phrases), (name, message)
            assert found[f"after {name}"] == [total, total]
