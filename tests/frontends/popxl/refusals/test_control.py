"""Calls, loops, conditionals and transforms that are refused."""

from __future__ import annotations

import popxl
from popxl import ops
from popxl.ops import var_updates
from popxl.transforms import (
    ExpectedConnection,
    GradGraphInfo,
    autodiff,
    io_tile_exchange,
)

from tests.support.popxl.popxl_refusals import PE, elsewhere, f16, f32, graph_of, table

X = popxl.TensorSpec((2,), popxl.float32)


def _add(*inputs, inputs_dict=None, op=ops.call, check=None):
    """Calls a graph of two inputs."""
    graph = graph_of(lambda a, b: a + b, X, X)
    by_input = {graph.inputs[i]: value for i, value in (inputs_dict or {}).items()}
    return op(graph, *inputs, inputs_dict=by_input)


def _foreign_key():
    graph, other = graph_of(lambda a: a, X), graph_of(lambda a: a, X)
    ops.call(graph, inputs_dict={other.inputs[0]: f32(2)})


def _repeat(*inputs, inputs_dict=None):
    """Repeats a graph of two inputs."""
    graph = graph_of(lambda a, b: a + b, X, X)
    by_input = {graph.inputs[i]: value for i, value in (inputs_dict or {}).items()}
    return ops.repeat(graph, 2, *inputs, inputs_dict=by_input)


CALLS = {"call": _add, "repeat": _repeat}


@table(
    *(
        (f"{name}: {what}", error, words, lambda f=f, build=build: build(f))
        for name, f in CALLS.items()
        for what, error, words, build in (
            (
                "many",
                ValueError,
                "Too many inputs have been provided",
                lambda f: f(f32(2), f32(2), f32(2)),
            ),
            ("elsewhere", ValueError, "is not in parent graph", lambda f: f(f32(2), elsewhere(2))),
            (
                "twice",
                ValueError,
                "Graph input tensor is specified twice",
                lambda f: f(f32(2), f32(2), inputs_dict={1: f32(2)}),
            ),
            ("few", ValueError, "Not enough inputs have been provided", lambda f: f(f32(2))),
            ("None", TypeError, "", lambda f: f(f32(2), None)),
            ("text", TypeError, "", lambda f: f(f32(2), inputs_dict={1: "text"})),
            ("shape", PE, "does not match callee input tensor", lambda f: f(f32(2), f32(3))),
            ("dtype", PE, "does not match callee input tensor", lambda f: f(f32(2), f16(2))),
            (
                "meta shape",
                PE,
                "does not match callee input tensor",
                lambda f: f(f32(2), ops.init((2,), popxl.float32, meta_shape=(4,))),
            ),
        )
    ),
    ("key", ValueError, "not in the called graph", _foreign_key),
    (
        "count",
        ValueError,
        "Repeat count must be >= 0",
        lambda: ops.repeat(graph_of(lambda a: a, X), -1, f32(2)),
    ),
    (
        "outputs",
        ValueError,
        "To repeat the subgraph",
        lambda: ops.repeat(graph_of(lambda a: (a + 1, a + 2), X), 1, f32(2)),
    ),
)
def test_calls_and_loops(case):
    case.check()


def _if(then=lambda a: a + 1, other=lambda a: a + 2, condition=None, **passed):
    condition = popxl.constant(True) if condition is None else condition
    graphs = [graph_of(fn, X) for fn in (then, other)]
    passed = {"then_inputs": [f32(2)], "else_inputs": [f32(2)], **passed}
    return ops.conditional(condition, *graphs, **passed)


def _by_ref(x: popxl.TensorByRef):
    return x + 1


@table(
    (
        "outputs",
        ValueError,
        "must have the same number of outputs",
        lambda: _if(lambda a: (a + 1, a + 2)),
    ),
    ("shapes", PE, "", lambda: _if(lambda a: ops.sum(a))),
    ("dtypes", PE, "", lambda: _if(lambda a: ops.cast(a, popxl.float16))),
    ("condition", PE, "", lambda: _if(condition=popxl.constant([True, False]))),
    ("condition type", PE, "", lambda: _if(condition=popxl.constant(1))),
    ("then", ValueError, "then_branch", lambda: _if(then_inputs=[])),
    ("else", ValueError, "else_branch", lambda: _if(else_inputs=[f32(2), f32(2)])),
    (
        "by reference",
        NotImplementedError,
        "TensorByRef is not implemented for the conditional op",
        lambda: _if(_by_ref),
    ),
)
def test_conditionals(case):
    case.check()


def _site():
    x, y = f32(2), f32(2)
    return ops.call_with_info(graph_of(lambda a, b: a + b, X, X), x, y)


def _branches():
    graphs = [graph_of(lambda a: a + 1, X), graph_of(lambda a: a + 2, X)]
    return ops.conditional_with_info(popxl.constant(True), *graphs, [f32(2)], [f32(2)])


@table(
    (
        "graph_to_parent",
        ValueError,
        "is not an input or output of the called graph",
        lambda: _site().graph_to_parent(f32(2)),
    ),
    (
        "parent_to_graph",
        ValueError,
        "is not a parent graph input",
        lambda: _site().parent_to_graph(f32(2)),
    ),
    ("modified", ValueError, "", lambda: _site().set_parent_input_modified(f32(2))),
    *(
        (
            f"{method} {index}",
            IndexError,
            "",
            lambda method=method, index=index: getattr(_site(), method)(index),
        )
        for method, index in (
            ("parent_input", 2),
            ("parent_output", 1),
            ("graph_to_parent_input_index", 2),
            ("parent_to_graph_input_index", 2),
            ("graph_to_parent_output_index", 1),
            ("parent_to_graph_output_index", 1),
            ("parent_input", -1),
        )
    ),
    *(
        (
            f"if {method} {index}",
            IndexError,
            "",
            lambda method=method, index=index: getattr(_branches(), method)(index),
        )
        for method, index in (
            ("graph_to_parent_input_index", 1),
            ("parent_to_graph_input_index", 0),
            ("parent_to_graph_input_index", 3),
            ("graph_to_parent_output_index", 1),
            ("parent_to_graph_output_index", 1),
            ("is_parent_index_in_then_branch", 0),
            ("is_parent_index_in_then_branch", 3),
        )
    ),
    (
        "if modified",
        NotImplementedError,
        "",
        lambda: _branches().set_parent_input_modified(f32(2)),
    ),
)
def test_sites(case):
    case.check()


def _autodiff(build, *args, provided=None, required=None, **options):
    graph = graph_of(build, *args)
    pick = {"grads_provided": provided, "grads_required": required}
    chosen = {name: fn(graph) for name, fn in pick.items() if fn is not None}
    return autodiff(graph, **chosen, **options)


def _marked():
    inner = graph_of(lambda a: a * 2, X)
    inner.can_be_differentiated = False
    autodiff(graph_of(lambda a: ops.call(inner, a), X))


def _other_site():
    info = _autodiff(lambda a, b: a * b, X, X)
    info.inputs_dict(_site())


def _other_site_of_both():
    info = _autodiff(lambda a, b: a * b, X, X)
    info.fwd_parent_ins_to_grad_parent_outs(_site(), _site())


def _index():
    return popxl.constant([0], popxl.uint32)


REFUSED = {
    "equal": lambda a: ops.equal(a, a),
    "greater": lambda a: ops.greater(a, a * 2),
    "slice_": lambda a: ops.slice_(a * 2, 0, 1),
    "replicated_reduce_scatter": lambda a: ops.collectives.replicated_reduce_scatter(a),
}
CUT = {
    "logical_not": ops.logical_not,
    "increment_mod": lambda a: ops.increment_mod(a, 1, 2),
    "floor": ops.floor,
    "ceil": ops.ceil,
    "sign": ops.sign,
    "isnan": ops.isnan,
    "to int": lambda a: ops.cast(ops.cast(a, popxl.int32), popxl.float32),
    "detach": ops.detach,
    "detach_": ops.detach_,
    "scaled_add": lambda a: ops.scaled_add(a, a),
    "argmax": ops.argmax,
    "histogram": lambda a: ops.histogram(a, [0.0], False),
    "lamb_square": ops.lamb_square,
    "replicated_all_reduce": ops.collectives.replicated_all_reduce,
    "repeat": lambda a: ops.repeat(graph_of(lambda x: x * 2, X), 2, a),
}
MODIFYING = {
    "add_": lambda a: ops.add_(a, a * 2),
    "relu_": ops.relu_,
    "exp_": ops.exp_,
    "accumulate_": lambda a: var_updates.accumulate_(a, a * 2),
    "copy_var_update_": lambda a: var_updates.copy_var_update_(a, a * 2),
    "dynamic_update_": lambda a: ops.dynamic_update_(a, _index(), a[:1], [0], [1], True),
}


@table(
    (
        "no gradients",
        PE,
        "empty vector",
        lambda: _autodiff(lambda a: a * 2, X, required=lambda g: []),
    ),
    (
        "elsewhere",
        PE,
        "this tensor is not in the forward graph",
        lambda: _autodiff(lambda a: a * 2, X, required=lambda g: [f32(2)]),
    ),
    (
        "provided elsewhere",
        PE,
        "this tensor is not in the forward graph",
        lambda: _autodiff(lambda a: a * 2, X, provided=lambda g: [f32(2)]),
    ),
    (
        "integer",
        PE,
        "Unable to provide required gradient output",
        lambda: _autodiff(lambda a, i: ops.gather(a, i), X, popxl.TensorSpec((2,), popxl.int32)),
    ),
    (
        "no path",
        PE,
        "Unable to provide required gradient output",
        lambda: _autodiff(lambda a, b: a * 2, X, X),
    ),
    *(
        (
            f"cut by {name}",
            PE,
            "Unable to provide required gradient output",
            lambda fn=fn: _autodiff(fn, X),
        )
        for name, fn in CUT.items()
    ),
    *((f"through {name}", PE, "", lambda fn=fn: _autodiff(fn, X)) for name, fn in REFUSED.items()),
    *(
        (f"modified by {name}", PE, "The graph ", lambda fn=fn: _autodiff(fn, X))
        for name, fn in MODIFYING.items()
    ),
    *(
        (f"modifying by {name}", PE, "contains a modifying op", lambda fn=fn: _autodiff(fn, X))
        for name, fn in MODIFYING.items()
    ),
    ("marked", PE, "has been marked as unsafe to autodiff", _marked),
    ("site", TypeError, "does not match the graph that was differentiated", _other_site),
    ("sites", TypeError, "does not match the graph that was differentiated", _other_site_of_both),
    ("GradGraphInfo", TypeError, "should not be constructed directly", GradGraphInfo),
    ("ExpectedConnection", TypeError, "should not be constructed directly", ExpectedConnection),
)
def test_gradients(case):
    case.check()


def _two_kinds():
    with io_tile_exchange():
        x = ops.host_load(popxl.h2d_stream((2,), popxl.float32))
        ops.host_store(popxl.d2h_stream((2,), popxl.float32), x)


def _computing():
    x = f32(2)
    with io_tile_exchange():
        ops.host_store(popxl.d2h_stream((2,), popxl.float32), x)
        ops.add(x, x)


@table(
    ("dependent", RuntimeError, "More than one Op remained", _two_kinds),
    ("computing", RuntimeError, "More than one Op remained", _computing),
)
def test_exchanges(case):
    case.check()
