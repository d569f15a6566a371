"""Graphs with names: their text, their bindings, and caches of them."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl_addons import graph_cache

from tests.support.popxl.popxl_modules import Linear, Outlined

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, 6).astype(np.int32)
SPEC = popxl.TensorSpec((2, 4), popxl.float32)


def test_schedules_show_names_shapes_and_numbers(main):
    factories, graph = Linear(32).create_graph(popxl.TensorSpec((2, 4), popxl.float32))
    assert factories.keys_flat() == ["weight", "bias"]
    assert graph.print_schedule() == (
        "Graph : Linear_subgraph(0)\n"
        "  (%1, weight=%2, bias=%3) -> (%5) {\n"
        "    MatMul.100 (%1 [(2, 4) float32], %2 [(4, 32) float32]) -> (%4 [(2, 32) float32])\n"
        "    Add.101 (%4 [(2, 32) float32], %3 [(32,) float32]) -> (%5 [(2, 32) float32])\n"
        "  }"
    )


def test_calls_in_schedules_name_the_graph(main):
    factories, graph = Outlined().create_graph(popxl.TensorSpec((2, 4), popxl.float32))
    names = ["last.weight", "last.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert factories.keys_flat() == names
    lines = graph.print_schedule().splitlines()
    assert lines[1].startswith("  (%1, fc1.weight=%2, fc1.bias=%3, fc2.weight=%4")
    assert lines[2].startswith("    Call.102(Linear_subgraph(1)) (%1 [(2, 4) float32], %2 [")
    assert len(graph.graph.called_graphs) == 1


def test_graphs_are_bound_and_differentiated_once(main):
    factories, graph = Linear(3).create_graph(popxl.TensorSpec((2, 4), popxl.float32))
    weights = factories.init()
    x = popxl.constant(X[:2])
    bound = graph.bind(addons.NamedTensors(weight=weights.weight, other=x))
    assert list(bound.args) == [graph.args.weight]
    with pytest.raises(ValueError, match="Not enough inputs"):
        bound.call(x)
    (y,) = bound.bind({graph.args.bias: weights.bias}).call(x)
    zeros = popxl.constant(np.zeros(3, np.float32))
    info = graph.bind(weights).call_with_info(x, args={graph.args.bias: zeros})
    assert info.graph_to_parent(graph.args.bias) is zeros
    outside = graph.bind(weights).subgraph_io_map(x, outs=[y])
    assert outside[graph.graph.inputs[0]] is x and outside[graph.graph.outputs[0]] is y
    with pytest.raises(AttributeError, match="Not a gradient graph"):
        graph.grad_graph_info  # noqa: B018
    with pytest.raises(ValueError, match="method must be one of"):
        graph.autodiff(method="other")
    with pytest.raises(ValueError, match="module that implements `build_grad`"):
        graph.autodiff(method="build_grad")
    assert graph.autodiff().graph.name == "Linear_subgraph(0)_bwd"
    with pytest.raises(Exception, match="Autodiff has already been applied"):
        graph.autodiff()
    assert graph.copy().autodiff_applied and graph.autodiff(force=True)


def test_a_cache_gives_one_graph_for_equal_arguments(main):
    module = Linear(3, cache=True)
    spec = popxl.TensorSpec((2, 4), popxl.float32)
    assert module.create_graph(spec)[1].graph is module.create_graph(spec)[1].graph
    other = module.create_graph(popxl.TensorSpec((3, 4), popxl.float32))[1]
    with popxl.ipu(1):
        elsewhere = module.create_graph(spec)[1]
    assert len({g.graph for g in (other, elsewhere, module.create_graph(spec)[1])}) == 3
    cache = addons.GraphCache()

    def double(x, factor):
        return x * factor

    assert cache.create_graph(double, spec, 2) is cache.create_graph(double, spec, 2)
    assert cache.create_graph(double, spec, 2) is not cache.create_graph(double, spec, 3)
    cached = addons.function(double)
    x = popxl.variable(X)
    assert cached(x, 2.0)[0].shape == cached(x, 2.0)[0].shape == X.shape
    assert len(main.called_graphs) == 1


class Tutorial(addons.Module):
    """Layers of which two share a graph, as in the tutorial of the original."""

    def __init__(self):
        self.fc1 = Linear(5)
        self.fc4 = Linear(3)

    def build(self, x: popxl.Tensor):
        x = ops.gelu(self.fc1(x.reshape((-1, 8))))
        factories, graph = Linear(5).create_graph(x)
        for name in ("fc2", "fc3"):
            (x,) = graph.bind(self.add_variable_inputs(name, factories)).call(x)
            x = ops.gelu(x)
        return self.fc4(x)


def test_schedules_count_values_by_first_mention(main):
    factories, graph = Tutorial().create_graph(popxl.TensorSpec((2, 4), popxl.float32))
    kinds = ("weight", "bias")
    layers = [f"{layer}.{kind}" for layer in ("fc1", "fc4", "fc2", "fc3") for kind in kinds]
    assert list(factories.to_dict().keys()) == layers
    text = graph.print_schedule()
    # The layout, numbers and ids of the tutorial's output, at other sizes.
    names = [f"fc{i}.{kind}" for i in range(1, 5) for kind in kinds]
    values = ", ".join(f"{name}=%{number}" for number, name in enumerate(names, 2))
    assert text.splitlines()[:2] == [
        "Graph : Tutorial_subgraph(0)",
        f"  (%1, {values}) -> (%19) {{",
    ]
    assert [line.split()[0].split("(")[0] for line in text.splitlines()[2:-1]] == [
        *("Reshape.100", "MatMul.101", "Add.102", "Gelu.103", "Call.106", "Gelu.107"),
        *("Call.108", "Gelu.109", "MatMul.110", "Add.111"),
    ]
    assert text.splitlines()[2] == "    Reshape.100 (%1 [(2, 4) float32]) -> (%10 [(1, 8) float32])"
    assert text.splitlines()[8] == (
        "    Call.108(Linear_subgraph(1)) (%15 [(1, 5) float32], %6 [(5, 5) float32], "
        "%7 [(5,) float32]) -> (%16 [(1, 5) float32])"
    )
    assert text.splitlines()[-1] == "  }"


def test_schedules_show_what_is_in_the_main_graph(main):
    x = ops.host_load(popxl.h2d_stream((2,), popxl.float32))
    body = main.ir.create_graph(lambda x: x * 2.0, x)
    (y,) = ops.repeat(body, 3, x)
    ops.host_store(popxl.d2h_stream((2,), popxl.float32), y)
    assert addons.GraphWithNamedArgs(main).print_schedule() == (
        "Graph : \n"
        "  () -> () {\n"
        "    Init.100 () -> (%1 [(2,) float32])\n"
        "    HostLoad.101 (%1 [(2,) float32]) -> (%2 [(2,) float32])\n"
        f"    Loop.104({body.id}__loop_wrapper_subgraph(1)) (%2 [(2,) float32]) -> "
        "(%3 [(2,) float32])\n"
        "    HostStore.105 (%3 [(2,) float32]) -> ()\n"
        "  }"
    )


def test_updates_in_schedules_have_names_of_original(main):
    t, x = popxl.variable(X), popxl.constant(X)
    step = popxl.constant(np.float32(1))
    with popxl.in_sequence():
        t += x
        ops.scaled_add_(t, x)
        ops.relu_(t)
        var_updates.accumulate_(t, x)
        var_updates.accumulate_mean_(t, x, step)
        var_updates.accumulate_square_(t, x)
        var_updates.accumulate_moving_average_(t, x, 0.5)
        var_updates.accumulate_moving_average_square_(t, x, 0.5)
        var_updates.accumulator_scale_(t, 0.5)
        var_updates.accumulator_zero_(t)
        var_updates.copy_var_update_(t, x)
        var_updates.adam_updater(t, x)
        var_updates.adamax_updater(t, x, time_step=step + 1.0)
    lines = addons.GraphWithNamedArgs(main).print_schedule().splitlines()[2:-1]
    assert [line.split()[0].split(".")[0] for line in lines] == [
        *("AddLhsInplace", "ScaledAddLhsInplace", "ReluInplace"),
        *["Accumulate"] * 5,
        *("AccumulatorScale", "AccumulatorZero", "CopyVarUpdate", "AdamUpdater", "Add"),
        "AdamUpdater",
    ]


def test_tensors_of_calls_come_before_those_bound(main):
    def fn(a: popxl.Tensor, b: popxl.Tensor, c: popxl.Tensor):
        return a - b, c

    tensors = [popxl.constant(np.float32(i)) for i in range(4)]
    graph = main.ir.create_graph(fn, *tensors[:3])
    a, b, c = graph.inputs
    bound = addons.BoundGraph(graph, {b: tensors[1]})
    more = bound.bind({c: tensors[2]})
    assert bound.args == {b: tensors[1]} and more.args == {b: tensors[1], c: tensors[2]}
    info = more.call_with_info(tensors[0], args={c: tensors[3]})
    assert info.inputs == (tensors[0], tensors[1], tensors[3])
    assert len(more.call(tensors[0])) == 2
    assert more.subgraph_io_map(tensors[3], args={c: tensors[0]}, outs=tensors[:2]) == {
        a: tensors[3],
        b: tensors[1],
        c: tensors[0],
        graph.outputs[0]: tensors[0],
        graph.outputs[1]: tensors[1],
    }
    assert bound.subgraph_io_map() == bound.args
    with pytest.raises(ValueError, match="specified twice"):
        bound.call(tensors[0], tensors[1])
    with pytest.raises(ValueError, match="Not enough inputs"):
        bound.call(tensors[0])
    named = addons.GraphWithNamedArgs(graph, addons.NamedTensors(b=b))
    assert named.call(*tensors[:2], args={c: tensors[2]})[0].shape == ()
    assert not named.autodiff_applied and named.called_graphs_grad_info == {}


def test_gradient_graphs_know_what_they_are_gradient_of(main):
    factories, graph = Linear(3).create_graph(SPEC)
    info = popxl.transforms.autodiff(graph.graph)
    named = addons.GraphWithNamedArgs.from_grad_graph(
        info, addons.NamedTensors(a=info.graph.inputs[0])
    )
    assert (
        named.graph is info.graph and named.grad_graph_info is info and named.args.keys() == ["a"]
    )
    again = addons.GraphWithNamedArgs(info.graph)
    again.grad_graph_info = info
    assert again.copy().grad_graph_info is info
    plain = addons.autodiff(graph.graph, grads_required=[graph.args.weight])
    assert plain.grad_graph_info.outputs == (graph.args.weight,) and len(plain.args) == 0
    # A failure does not count as the one time that a graph is differentiated.
    with pytest.raises(popxl.errors.popart_exception, match="empty vector"):
        graph.autodiff(grads_required=[])
    assert graph.autodiff().grad_graph_info.forward_graph is graph.graph


def test_caches_tell_programs_apart():
    cache = addons.GraphCache()
    made = []
    for _ in range(2):
        with popxl.Ir().main_graph:
            made.append(cache.create_graph(abs_of, SPEC))
            assert cache.create_graph(abs_of, SPEC) is made[-1]
    assert made[0].ir != made[1].ir


def abs_of(x):
    return ops.abs(x)


def test_caches_tell_functions_apart_by_their_hashes(main):
    class Scale(popxl.Module):
        def __init__(self, factor):
            self.factor = factor

        def __hash__(self):
            return int(self.factor)

        def build(self, x: popxl.Tensor):
            return x * self.factor

    cache = addons.GraphCache()
    first = cache.create_graph(Scale(2.0), SPEC)
    assert cache.create_graph(Scale(2.0), SPEC) is first
    assert cache.create_graph(Scale(3.0), SPEC) is not first
    same = [graph_cache.get_function_hash(Scale(4.0), SPEC) for _ in range(2)]
    assert same[0] == same[1] != graph_cache.get_function_hash(Scale(5.0), SPEC)
    t = popxl.constant(X[:2])
    assert graph_cache.tensor_hash(t) == graph_cache.argument_hash(SPEC)
    assert graph_cache.argument_hash([t, {"a": 1}]) != graph_cache.argument_hash([t, {"a": 1.0}])
    assert graph_cache.bound_arguments(abs_of, t).arguments == {"x": t}


def test_caches_tell_specs_values_and_places_apart(main):
    cache = addons.GraphCache()

    def fn(x: popxl.Tensor, *others: popxl.Tensor, n: int = 1, table: dict | None = None, **named):
        return x * float(n)

    t = popxl.constant(X[:2])
    make = cache.create_graph
    first = make(fn, SPEC, SPEC, n=1, table={"a": 1}, z=SPEC)
    assert make(fn, t, SPEC, table={"a": 1}, z=t) is first
    others = [
        make(fn, SPEC, SPEC, n=1.0, table={"a": 1}, z=SPEC),
        make(fn, SPEC, SPEC, table={"a": 2}, z=SPEC),
        make(fn, SPEC, SPEC, SPEC, table={"a": 1}, z=SPEC),
        make(fn, SPEC, SPEC, table={"a": 1}, y=SPEC),
        make(fn, popxl.TensorSpec((2, 4), popxl.float16), SPEC, table={"a": 1}, z=SPEC),
    ]
    with popxl.io_tiles():
        others.append(make(fn, SPEC, SPEC, table={"a": 1}, z=SPEC))
    assert len({(graph.ir.id, graph.id) for graph in [first, *others]}) == len(others) + 1
    with pytest.raises(TypeError, match="unhashable"):
        make(fn, SPEC, n=np.zeros(2))


def test_cached_functions_pass_the_tensors_that_are_inputs(main):
    outside = popxl.constant(np.float32(1.0))

    @addons.function
    def fn(x, pair, *, table, **named):
        assert table["t"] is outside
        return x - pair[0], pair[1] * named["z"]

    found = []
    for _ in range(2):
        x, y, z = (popxl.constant(X) for _ in range(3))
        found.append(fn(x, [x, y], table={"t": outside}, z=z))
    assert [len(outputs) for outputs in found] == [2, 2] and len(main.called_graphs) == 1
    assert isinstance(found[0], tuple) and fn.__name__ == "fn"
