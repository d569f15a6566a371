"""Programs of Poplar on several replicas: values are worked out by hand, or by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

RESULTS = {
    "streams": """\
2 2 2
replica 0: 50 51
replica 1: 60 61
call 0
replica 0: 10 10
replica 1: 10 10
copy: 0 | 1
all: 100 101 | 100 101
0 1 2 3 4 5 6 7
100 101
""",
    "copies": "a: 3 2 | 1 0 | 4 5\n",
    "within": "3 5 7 3 5 7 4 3\n",
    # The third transfer cannot be filled early; what was filled after the last one is not used.
    "prefetch": """\
fill complete
fill early t: [0.0000000]
complete
t: [1.0000000]
fill complete
fill early t: [2.0000000]
complete
fill early t: [3.0000000]
unused
""",
}

ERRORS = {
    "diverge": "application_runtime_error: Replicas 0 and 1 do not meet",
    "indivisible": "graph_replication_error: The target has 4 IPUs, which cannot be divided into 3",
    "group": "allReduceCrossReplica: groups of 3 replicas do not divide the 4 replicas",
    "option": "invalid_option: A collective has no option 'methods'",
    "copy_outside": "replica 0 cannot be copied to replica 2: the graph has 2 replicas",
}

DATA = np.arange(4) + 10 * np.arange(4)[:, None]


def rows(replicas: Iterable[np.ndarray]) -> str:
    """Returns the values of each replica, as the program prints them."""
    return " | ".join(" ".join(f"{v:g}" for v in np.ravel(values)) for values in replicas)


def groups(size: int, stride: int) -> list[list[int]]:
    """Returns the group of each of four replicas."""
    first = [r // (size * stride) * size * stride + r % stride for r in range(4)]
    return [[f + i * stride for i in range(size)] for f in first]


@pytest.mark.parametrize("name", RESULTS)
def test_replicas_print(run_poplar: Callable[..., str], name: str) -> None:
    assert run_poplar("replicas.cpp", name, libraries=("gcl",)) == RESULTS[name]


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_fault(run_poplar: Callable[..., str], name: str) -> None:
    assert ERRORS[name] in run_poplar("replicas.cpp", name, libraries=("gcl",))


def test_collectives_equal_numpy(run_poplar: Callable[..., str]) -> None:
    output = run_poplar("replicas.cpp", "collectives", libraries=("gcl",)).splitlines()
    results = dict(line.split(": ", 1) for line in output[1:])
    pairs, halves = groups(2, 1), groups(2, 2)
    parts = np.pad(np.stack([DATA[g, :3].sum(0) for g in pairs]), [(0, 0), (0, 1)])
    transposed = DATA.reshape(4, 2, 2).transpose(0, 2, 1)
    ints = np.array([[1, 2, 3], [1, 2, 3], [2, 2, 2], [5, 1, 1]]).prod(0)
    assert output[0] == "{2,2}"
    assert results == {
        "sum": rows([DATA.sum(0)] * 4),
        "mean": rows([DATA.mean(0)] * 4),
        "pairs": rows(DATA[g].max(0) for g in pairs),
        "halves": rows(DATA[g].min(0) for g in halves),
        "squares": rows([(DATA**2).sum(0)] * 4),
        "scatter": rows(parts[r].reshape(2, 2)[r % 2] for r in range(4)),
        "local": rows(DATA[r, r] for r in range(4)),
        "gather": rows(DATA[g, 1:3] for g in halves),
        "toAll": rows(transposed[g, r % 2] for r, g in enumerate(pairs)),
        "ints": rows([ints] * 4),
    }
