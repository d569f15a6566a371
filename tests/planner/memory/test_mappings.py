"""On which tiles each buffer is."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder, pipelines, workloads

FAST = settings(max_examples=15, derandomize=True, deadline=None)


def test_intervals_of_tiles_by_hand():
    make = Builder()
    weight = make.variable("w", (64,))
    state = make.variable("m", (40,), role="optimizer state")
    x = make.input("x", (64,))
    make.op("MatMul", [x, weight], (96,))
    make.op("ResourceApplyMomentum", [weight, state])
    (found,) = Planner(make.workload()).mappings(Settings())
    # Of three tiles with a full block, those of the weight are numbered first.
    assert found[weight] == ((0, 32), (1, 32))
    assert found[state] == ((2, 32), (3, 8))
    assert found[x] == ((0, 32), (1, 32))


@given(workload=st.one_of(workloads(), pipelines()), io_tiles=st.sampled_from([0, 32]))
@FAST
def test_each_element_is_on_a_tile_once(workload, io_tiles):
    for found in Planner(workload).mappings(Settings(io_tiles=io_tiles)):
        for index, mapping in found.items():
            buffer = workload.buffers[index]
            held = sum(elements for _, elements in mapping)
            variable = buffer.variable
            split = 1 if variable is None else workload.variables[variable].split
            assert -(-buffer.type.elements // split) <= held <= buffer.type.elements
            tiles = [tile for tile, _ in mapping]
            assert tiles == sorted(set(tiles)) and all(0 <= t < 1472 - io_tiles for t in tiles)


@given(workload=workloads())
@FAST
def test_mappings_are_those_of_the_plan(workload):
    plans = Planner(workload).memory(Settings())
    for found, mappings in zip(plans, Planner(workload).mappings(Settings())):
        expected = np.zeros(1472, np.int64)
        for index, mapping in mappings.items():
            buffer = workload.buffers[index]
            home = buffer.ipu == found.ipu
            if buffer.kind == "constant" and home:
                for tile, elements in mapping:
                    expected[tile] += elements * buffer.type.element_size
        constants = found.category("constants")
        assert expected.sum() == (constants.total if constants else 0)
        assert constants is None or np.array_equal(constants.tiles, expected)
