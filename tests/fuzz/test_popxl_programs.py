"""Random programs of PopXL compute the same as a memory with addresses."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from hypothesis import strategies
from popxl import ops

from tests.fuzz import popxl_programs, support


def test_ops_in_place_views_calls_and_loops(request: pytest.FixtureRequest) -> None:
    def check(program: popxl_programs.Program) -> None:
        ir, expected = popxl_programs.build(program)
        with popxl.Session(ir, "ipu_hw") as session:
            found = session.run()
        for number, (stream, array) in enumerate(expected.items()):
            np.testing.assert_array_equal(found[stream], array, err_msg=f"tensor {number}")

    support.run(request, "PopXL programs", popxl_programs.PROGRAMS, check)


DATA = np.arange(4 * 5 * 3, dtype=np.float32).reshape(4, 5, 3)
_places = [strategies.integers(-size, size - 1) for size in DATA.shape]
_bounds = strategies.one_of(strategies.none(), strategies.integers(-7, 7))
_steps = strategies.sampled_from([None, 1, 2, 3, -1, -2])
_slices = strategies.builds(slice, _bounds, _bounds, _steps)
_parts = [strategies.one_of(places, _slices) for places in _places]
_arrays = strategies.lists(_places[0], min_size=1, max_size=4)
KEYS = strategies.one_of(
    _parts[0],
    strategies.tuples(_parts[0], _parts[1]),
    strategies.tuples(*_parts),
    strategies.tuples(*_parts),
    _arrays.map(lambda places: np.array(places, np.int32) % 4),
).filter(lambda key: DATA[key].size)


def test_indices_and_slices(request: pytest.FixtureRequest) -> None:
    def check(keys: list[object]) -> None:
        ir = popxl.Ir()
        with ir.main_graph:
            t = popxl.variable(DATA)
            streams = []
            for key in keys:
                part = t[key]
                assert part.shape == DATA[key].shape, key
                streams.append(popxl.d2h_stream(part.shape, part.dtype))
                ops.host_store(streams[-1], part)
        with popxl.Session(ir, "ipu_hw") as session:
            found = session.run()
        for key, stream in zip(keys, streams):
            np.testing.assert_array_equal(found[stream], DATA[key], err_msg=str(key))

    keys = strategies.lists(KEYS, min_size=1, max_size=12)
    support.run(request, "PopXL indices", keys, check)
