"""Tensors of callers, passed on to graphs that are called already."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.route_tensor import called_graph_paths
from popxl_addons.transforms.repeat_graph import repeat_graph


def test_calls_and_loops_pass_tensors_on():
    """The inner graph is called by two graphs, one of which is a loop."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        extra, total = popxl.variable([1.0, 2.0]), popxl.variable([0.0, 0.0])
        x = popxl.variable([10.0, 20.0])
        inner = ir.create_graph(lambda x: ops.identity(x), x)
        outer = ir.create_graph(lambda x: ops.call(inner, x), x)
        ops.repeat(outer, 3, x)
        ops.call(inner, x)
        assert addons.is_subgraph(ir.main_graph, inner) and addons.is_subgraph(outer, inner)
        assert not addons.is_subgraph(inner, outer) and not addons.is_subgraph(outer, outer)
        with inner:
            routed = addons.route_tensor_into_graph(extra)
            changed = addons.route_tensor_into_graph(total, modified=True)
            var_updates.accumulate_(changed, routed + inner.inputs[0])
            assert addons.route_tensor_into_graph(routed) is routed
        assert (len(inner.inputs), len(outer.inputs)) == (3, 3)
        assert changed.by_ref and not routed.by_ref
        assert addons.route_tensor_into_graph(inner.inputs[1], inner) is inner.inputs[1]
        for again in (False, True):
            assert addons.route_tensor_into_graph(total, inner, modified=again) is changed
        assert addons.route_tensor_into_graph(extra, inner) is routed and len(inner.inputs) == 3
        assert called_graph_paths(outer, inner) == [[inner]]
        assert [inner] in called_graph_paths(ir.main_graph, inner)
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(total), [44.0, 88.0])


def test_tensors_that_cannot_be_passed_on_are_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        x, condition = popxl.variable([1.0]), popxl.variable(True)
        unused, chosen, called = (ir.create_graph(lambda x: ops.relu(x), x) for _ in range(3))
        ops.conditional(condition, chosen, unused, [x], [x])
        ops.call(called, x)
        late = ops.relu(x)
    lonely = ir.create_graph(lambda x: ops.relu(x), popxl.TensorSpec((1,), popxl.float32))
    for graph in (lonely, popxl.Ir().main_graph):
        with pytest.raises(ValueError, match="not in the graph .* is not in a known parent graph"):
            addons.route_tensor_into_graph(x, graph)
    with pytest.raises(NotImplementedError, match="only calls and loops"):
        addons.route_tensor_into_graph(x, chosen)
    with pytest.raises(ValueError, match="is made after"):
        addons.route_tensor_into_graph(late, called)


# --- Graphs turned into loops ---


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
