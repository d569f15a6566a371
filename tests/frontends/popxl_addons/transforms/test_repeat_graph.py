"""Graphs turned into loops."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.transforms.repeat_graph import repeat_graph


def test_graph_repeats_effects_where_already_called():
    ir = popxl.Ir()

    def step(x: popxl.Tensor, rate: popxl.Tensor, total: popxl.TensorByRef):
        var_updates.accumulate_(total, x)
        return x * rate + 1.0, rate

    with ir.main_graph, popxl.in_sequence():
        x, rate, total = (popxl.variable(value) for value in (3.0, 2.0, 0.0))
        graph = ir.create_graph(step, x, rate, total)
        before = ops.call(graph, x, rate, total)
        named = addons.GraphWithNamedArgs(graph)
        assert repeat_graph(named, 4) is named
        assert [op.opType() for op in graph.ops] == ["Loop"]
        after = ops.call(graph, x, rate, total)
        targets = [addons.ops.host_store(t) for t in (*before, *after)]
    value, added = 3.0, 0.0
    for _ in range(4):
        value, added = value * 2 + 1, added + value
    with popxl.Session(ir) as session:
        found = session.run()
        assert [found[target] for target in targets] == [value, 2.0] * 2
        assert session.get_tensor_data(total) == 2 * added
    assert np.isclose(added, 56.0)


def test_graphs_that_cannot_be_loops_are_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(lambda x: ops.split(x, 2), popxl.variable(np.ones(2, np.float32)))
    with pytest.raises(ValueError, match="as many inputs as outputs"):
        repeat_graph(graph, 2)
    with pytest.raises(ValueError, match="at least 0"):
        repeat_graph(ir.main_graph, -1)
