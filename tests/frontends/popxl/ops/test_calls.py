"""Graphs that are called, repeated and chosen."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops

from tests.support.popxl import popxl_programs

X = np.array([1.0, 2.0], np.float32)


def scale_and_add(x, y, factor):
    return x * factor + y


def grow(x: popxl.TensorByRef, by: popxl.Tensor):
    x += by
    return x * 10


def run(build):
    """Runs a program on X."""
    return {name: array.tolist() for name, array in popxl_programs.run(build, [X]).items()}


def graph_of(fn, *args, **kwargs):
    return popxl.gir().create_graph(fn, *args, **kwargs)


def test_calls_of_one_graph_pass_their_own_inputs():
    def build(x):
        graph = graph_of(scale_and_add, x, x, 3.0)
        assert [t.name for t in graph.inputs] == ["x", "y"]
        (first,) = ops.call(graph, x, x)
        (second,) = ops.call(graph, first, inputs_dict={graph.inputs[1]: np.array([5, 6])})
        assert popxl.gmg().called_graphs == (graph,)
        return {"first": first, "second": second}

    assert run(build) == {"first": [4, 8], "second": [17, 30]}


def test_only_inputs_by_reference_are_written_back():
    def build(x):
        y, z = x + 0, x + 0
        with popxl.in_sequence():
            graph = graph_of(grow, y, y)
            (out,) = ops.call(graph, y, x)
            (again,) = ops.call(graph, y, x)

            def by_value(t: popxl.Tensor):
                t += 100
                return t

            lost = graph_of(by_value, z)
            (changed,) = ops.call(lost, z)
            before = z + 0
            info = ops.call_with_info(lost, z)
            info.set_parent_input_modified(z)
            return {"y": y + 0, "o": out, "a": again, "c": changed, "b": before, "z": z + 0}

    assert run(build) == {
        **{"y": [3, 6], "o": [20, 40], "a": [30, 60]},
        **{"c": [101, 102], "b": [1, 2], "z": [101, 102]},
    }


def test_calls_that_modify_one_tensor_keep_their_order():
    def raise_(x: popxl.TensorByRef, by: popxl.Tensor):
        x += by

    def double(x: popxl.TensorByRef):
        ops.add_(x, x)

    def build(x):
        total = x * 1
        ops.call(graph_of(raise_, total, x), total, x)
        ops.call(graph_of(double, total), total)
        with popxl.in_sequence():  # no data order a read after the calls
            ops.call(graph_of(double, total), total)
            return {"total": total + 0}

    assert run(build) == {"total": [8, 16]}


def test_repeat_carries_outputs_and_inputs_by_reference():
    def body(x: popxl.Tensor, total: popxl.TensorByRef, step: popxl.Tensor):
        total += x
        return x + step

    def build(x):
        total = x * 0
        graph = graph_of(body, x, total, x)
        (out,) = ops.repeat(graph, 4, x, total, x)
        (none,) = ops.repeat(graph, 0, x, x * 0, x)
        return {"out": out, "total": total + 0, "none": none}

    with pytest.raises(Exception, match="Inplacing ambiguity"):
        run(build)

    def sequenced(x):
        with popxl.in_sequence():
            return build(x)

    assert run(sequenced) == {"out": [5, 10], "total": [10, 20], "none": [1, 2]}


def test_carried_reference_ends_as_body_left_it():
    def body(x: popxl.TensorByRef):
        y = ops.add_(x, x)
        return y + 1

    def build(x):
        with popxl.in_sequence():
            start = x + 0
            (out,) = ops.repeat(graph_of(body, start), 3, start)
            return {"out": out, "start": start + 0}

    # x -> 2x + 1: 1, 3, 7, 15; in the last iteration the body's input becomes 14.
    assert run(build) == {"out": [15, 23], "start": [14, 22]}


def test_loop_runs_graph_around_one_that_is_repeated():
    ir = popxl.Ir()
    with ir.main_graph as main:
        x, by = popxl.variable(X), popxl.variable(X)
        graph = ir.create_graph(grow, x, by)
        info = ops.repeat_with_info(graph, 2, x, by)
    wrapper = info.called_graph
    assert wrapper.id == f"{graph.id}__loop_wrapper_subgraph(1)"
    assert main.called_graphs == (wrapper,) and wrapper.called_graphs == (graph,)
    assert [(t.shape, t.dtype) for t in wrapper.inputs] == [
        ((), popxl.int32),
        ((), popxl.bool),
        *[((2,), popxl.float32)] * 2,
    ]
    assert [t.by_ref for t in wrapper.inputs] == [False, False, True, False]
    assert wrapper.outputs[0] is wrapper.inputs[1] and len(wrapper.outputs) == 2
    assert (info.inputs, len(info.outputs)) == ((x, by), 1)
    assert (info.parent_input(2), info.parent_input(3)) == (x, by)
    assert info.parent_output(0) is info.outputs[0]
    assert info.graph_to_parent(wrapper.inputs[3]) is by
    assert info.graph_to_parent(wrapper.outputs[1]) is info.outputs[0]
    assert info.parent_to_graph(x) is wrapper.inputs[2]
    assert info.graph_to_parent_input_index(3) == info.parent_to_graph_input_index(3) == 3
    assert info.graph_to_parent_output_index(1) == 0 and info.parent_to_graph_output_index(0) == 1
    for method, index in (
        (info.parent_input, 1),
        (info.parent_input, 4),
        (info.graph_to_parent_input_index, 0),
        (info.parent_to_graph_input_index, 4),
        (info.graph_to_parent_output_index, 0),
        (info.parent_to_graph_output_index, 1),
    ):
        with pytest.raises(IndexError, match="There is no"):
            method(index)


def test_loop_loads_and_stores_take_elements_in_turn():
    ir = popxl.Ir()
    ir.num_host_transfers = 6
    with ir.main_graph:
        source = popxl.h2d_stream((), popxl.float32)
        target = popxl.d2h_stream((), popxl.float32)
        total = popxl.variable(0.0)

        def body(total: popxl.TensorByRef):
            with popxl.in_sequence():
                a = ops.host_load(source)
                b = ops.host_load(source)
                total += a
                ops.host_store(target, a - b)
                ops.host_store(target, total)

        ops.repeat(ir.create_graph(body, total), 3, total)
    with popxl.Session(ir) as session:
        for _ in range(2):
            found = session.run({source: [1, 2, 4, 8, 16, 32]})[target]
    np.testing.assert_array_equal(found, [-1, 22, -4, 26, -16, 42])
    assert total.data == 42


@pytest.mark.parametrize("value, expected", [(0.0, [2, 3]), (2.0, [-1, -2])])
def test_conditional_runs_the_chosen_branch_only(value, expected):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        log = popxl.d2h_stream((), popxl.float32)
        target = popxl.d2h_stream((2,), popxl.float32)

        def increase(x):
            return x + 1

        def invert(x):
            ops.host_store(log, popxl.constant(7.0))
            return ops.negate(x)

        graphs = [ir.create_graph(fn, x) for fn in (invert, increase)]
        condition = ops.greater(popxl.constant(value), popxl.constant(1.0))
        info = ops.conditional_with_info(condition, *graphs, [x], [x])
        assert info.called_graph == tuple(graphs)
        assert info.outputs[0].name == "neg_out_or_add_out"
        assert info.graph_to_parent(graphs[1].inputs[0]) is x
        ops.host_store(target, info.outputs[0])
    with popxl.Session(ir) as session:
        found = session.run()
    assert found[target].tolist() == expected
    assert found[log] == (7 if value else 0)


def test_call_info_links_graph_and_caller():
    ir = popxl.Ir()
    with ir.main_graph:
        x, y = popxl.variable(X, name="x"), popxl.variable(X, name="y")
        graph = ir.create_graph(scale_and_add, x, y, 2.0)
        info = ops.call_with_info(graph, x, y)
        assert info.inputs == (x, y) and info.called_graph is graph
        assert info.parent_input(1) is y and info.parent_output(0) is info.outputs[0]
        assert info.graph_to_parent(graph.inputs[1]) is y
        assert info.graph_to_parent(graph.outputs[0]) is info.outputs[0]
        assert info.parent_to_graph(y) is graph.inputs[1]
        assert info.outputs[0].name == "add_out"
        with pytest.raises(ValueError, match="is not an input or output of the called graph"):
            info.graph_to_parent(x)
        with pytest.raises(ValueError, match="is not a parent graph input"):
            info.parent_to_graph(info.outputs[0])
        with pytest.raises(IndexError):
            info.parent_input(2)


def test_calls_refuse_what_does_not_fit():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        graph = ir.create_graph(scale_and_add, x, x, 2.0)
        first = graph.inputs[0]
        for inputs, by_input, error, message in (
            ([x, x, x], {}, ValueError, "Too many inputs have been provided"),
            ([x], {}, ValueError, "Not enough inputs have been provided"),
            ([x], {first: x}, ValueError, "Graph input tensor is specified twice"),
            ([x], {x: x}, ValueError, "not in the called graph"),
            ([x, first], {}, ValueError, "is not in parent graph"),
            ([x, None], {}, TypeError, "could not be coerced into a tensor"),
            ([x, 1.0], {}, popxl.errors.popart_exception, "does not match callee input tensor"),
        ):
            with pytest.raises(error, match=message):
                ops.call(graph, *inputs, inputs_dict=by_input)
        with pytest.raises(ValueError, match="Repeat count must be >= 0"):
            ops.repeat(graph, -1, x, x)
        with pytest.raises(ValueError, match="To repeat the subgraph"):
            ops.repeat(ir.create_graph(lambda: popxl.constant(1)), 2)
        with pytest.raises(ValueError, match="must have the same number of outputs"):
            ops.conditional(ops.equal(x, x)[0], graph, ir.create_graph(lambda: None), [x, x])
        by_ref = ir.create_graph(grow, x, x)
        with pytest.raises(NotImplementedError, match="not implemented for the conditional op"):
            ops.conditional(ops.equal(x, x)[0], by_ref, by_ref, [x, x], [x, x])
