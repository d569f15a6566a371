"""Building and lowering a program takes work in proportion to its size."""

from __future__ import annotations

import sys

import numpy as np
import popxl
import pytest
from popxl import ops, transforms

from tensorflow_ipu.compiler import observers


def layer(x: popxl.Tensor, w: popxl.Tensor):
    return ops.relu(x @ w)


def called(ir, x, w, n):
    """One graph that is called often."""
    graph = ir.create_graph(layer, x, w)
    for _ in range(n):
        (x,) = ops.call(graph, x, w)
    return x


def many_graphs(ir, x, w, n):
    """A graph for each call."""
    for _ in range(n):
        (x,) = ops.call(ir.create_graph(layer, x, w), x, w)
    return x


def repeated(ir, x, w, n):
    """A loop of calls."""
    graph = ir.create_graph(lambda x, w: called(ir, x, w, n), x, w)
    return ops.repeat(graph, 3, x, w)[0]


def modified(ir, x, w, n):
    """A tensor that each op modifies."""
    for _ in range(n):
        x += 1.0
    return x


def updated(ir, x, w, n):
    """Many variables."""
    for _ in range(n):
        variable = popxl.variable(np.ones((4, 8), np.float32))
        variable += x
    return x


def differentiated(ir, x, w, n):
    """The gradient of calls."""
    graph = ir.create_graph(lambda x, w: ops.sum(called(ir, x, w, n)), x, w)
    info = transforms.autodiff(graph)
    site = ops.call_with_info(graph, x, w)
    return ops.call(info.graph, 1.0, inputs_dict=info.inputs_dict(site))[0]


def program(build, n):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, w = (popxl.variable(np.ones((rows, 8), np.float32)) for rows in (4, 8))
        y = build(ir, x, w, n)
        ops.host_store(popxl.d2h_stream(y.shape, y.dtype), y)
    return popxl.Session(ir)


def lines_of(function):
    """Counts the lines of Python that run in a call of a function."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = function()
    finally:
        sys.settrace(before)
    return count, result


@pytest.mark.parametrize(
    "build", [called, many_graphs, repeated, modified, updated, differentiated]
)
def test_building_and_lowering_take_work_in_proportion(build):
    built = {size: lines_of(lambda size=size: program(build, size)) for size in (10, 100, 200)}
    assert built[200][0] < 2.4 * built[100][0]
    attached = []
    for size in (10, 30, 60):
        session = program(build, size)
        attached.append(lines_of(session.__enter__)[0])
        session.__exit__(KeyError, None, None)
    assert attached[2] < 2.1 * attached[1]


def test_program_has_one_function_per_graph():
    found = []
    observers.observe(found.append)
    try:
        for size in (20, 40):
            with program(differentiated, size) as session:
                session.run()
    finally:
        observers.forget(found.append)
    functions = [{f.signature.name for f in executable.library.function} for executable in found]
    assert len(functions[0]) == len(functions[1]) == 5  # main, the layer, all layers, gradients
    nodes = [sum(len(f.node_def) for f in e.library.function) for e in found]
    assert nodes[1] < 2.1 * nodes[0]
