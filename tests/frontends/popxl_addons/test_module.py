"""Modules, their variables and graphs, and training with them against NumPy and TensorFlow."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
import pytest
import tensorflow as tf
from popxl import ops

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, 6).astype(np.int32)


class Linear(addons.Module):
    """A product and a sum, as in the tutorial of the original."""

    def __init__(self, out_features: int, bias: bool = True, **options):
        super().__init__(**options)
        self.out_features = out_features
        self.bias = bias

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        size = (x.shape[-1], self.out_features)
        y = x @ self.add_variable_input("weight", partial(np.random.normal, 0, 0.5, size), x.dtype)
        if self.bias:
            zeros = partial(np.zeros, self.out_features)
            y = y + self.add_variable_input("bias", zeros, x.dtype)
        return y


class Net(addons.Module):
    """Layers that are parts of the graph."""

    def __init__(self):
        super().__init__()
        self.fc1 = Linear(5)
        self.fc2 = Linear(3)

    def build(self, x: popxl.Tensor):
        return self.fc2(ops.gelu(self.fc1(x)))


class Outlined(addons.Module):
    """Layers that are calls of one graph."""

    def __init__(self):
        super().__init__()
        self.last = Linear(3)

    def build(self, x: popxl.Tensor):
        factories, graph = Linear(4).create_graph(x)
        for name in ("fc1", "fc2"):
            (x,) = graph.bind(self.add_variable_inputs(name, factories)).call(x)
            x = ops.gelu(x)
        return self.last(x)


@pytest.fixture
def main():
    with popxl.Ir().main_graph as graph:
        yield graph


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


def test_variables_are_made_in_the_order_of_names_with_names_of_their_own(main):
    factories, graph = Net().create_graph(popxl.TensorSpec((2, 4), popxl.float32))
    first, second = factories.init(), factories.init("copy")
    assert list(first.to_dict()) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    assert first.fc1.weight.name == "fc1.weight" and second.fc1.weight.name == "copy.fc1.weight"
    assert factories.init().fc1.bias.name.startswith("fc1.bias__t")
    assert isinstance(first.fc1.weight, popxl.Variable)
    assert [t.name for t in first.tensors] == sorted(t.name for t in first.tensors)
    both = addons.NamedTensors(a=first, b=second)
    assert both.named_tensors == both.to_dict() and len(both.tensors) == 8
    assert both.remap({t: t.name for t in both.tensors})["b.fc2.bias"] == "copy.fc2.bias"


def test_a_function_is_tried_once_before_it_gives_values(main):
    values = iter(range(10))
    factory = addons.VariableFactory(lambda: np.float32(next(values)), name="x")
    assert factory.dtype is popxl.float32
    assert [factory.create_tensor().data for _ in range(3)] == [1, 2, 3]
    limited = addons.VariableFactory([np.zeros(2), np.ones(2)], popxl.float16)
    assert [limited.create_tensor().data.tolist() for _ in range(2)] == [[0, 0], [1, 1]]
    with pytest.raises(StopIteration):
        limited.create_tensor()
    assert limited.create_tensor(empty=True).dtype is popxl.float16


def test_what_gives_no_values_is_refused():
    def fails():
        raise OSError("no file")

    for data, phrase in (
        (fails, "throws error"),
        (5, "must be an iterable or callable"),
        (["text"], "must return arrays or numbers"),
    ):
        with pytest.raises(ValueError, match=phrase):
            addons.VariableFactory(data)


def test_values_in_files_are_kept(main, tmp_path):
    factory = addons.VariableFactory([np.ones((2, 3)), np.zeros((2, 3))], popxl.float32, "w")
    made = factory.create_tensor(memmap_dir=tmp_path / "new")
    assert isinstance(made.data, np.memmap) and (made.data == 1).all()
    again = factory.create_tensor(memmap_dir=tmp_path / "new", read_only_if_exists=True)
    assert (again.data == 1).all() and not again.data.flags.writeable


def test_a_module_can_make_graphs_again_and_its_parts_have_one_name_each(main):
    net = Net()
    spec = popxl.TensorSpec((2, 4), popxl.float32)
    first, second = net.create_graph(spec), net.create_graph(spec)
    assert first[0].keys_flat() == second[0].keys_flat()
    assert first[1].graph is not second[1].graph
    with pytest.raises(ValueError, match="already exists"):
        net.fc1 = Linear(2)

    class Twice(addons.Module):
        def build(self, x: popxl.Tensor):
            self.add_variable_input("w", partial(np.zeros, 2), x.dtype)
            return self.add_variable_input("w", partial(np.zeros, 2), x.dtype)

    with pytest.raises(ValueError, match="already exists"):
        Twice().create_graph(spec)


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


def test_modules_in_lists_have_numbers(main):
    class Stack(addons.Module):
        def __init__(self):
            super().__init__()
            self.layers = addons.Module.from_list([Linear(3), Linear(2)])

        def build(self, x: popxl.Tensor):
            for layer in self.layers:
                x = layer(x)
            return x

    stack = Stack()
    factories, graph = stack.create_graph(popxl.TensorSpec((2, 4), popxl.float32))
    assert factories.keys_flat()[::2] == ["layers.0.weight", "layers.1.weight"]
    assert graph.args.layers[-1].bias.shape == (2,)
    assert stack.layers.get("1") is stack.layers[1]
    with pytest.raises(AttributeError, match="from_list"):
        stack[0]


def trained(net, steps=3, accumulate=1):
    """Trains a network; returns losses, initial and last weights by name."""
    np.random.seed(4)
    ir = popxl.Ir()
    with ir.main_graph:
        images = popxl.h2d_stream(X.shape, popxl.float32)
        classes = popxl.h2d_stream(LABELS.shape, popxl.int32)
        x, labels = ops.host_load(images), ops.host_load(classes)
        factories, forward = net.create_graph(x)
        backward = addons.autodiff(forward)
        weights = factories.init()
        info = forward.bind(weights).call_with_info(x)
        loss, dx = addons.ops.cross_entropy_with_grad(info.outputs[0], labels)
        losses = addons.ops.host_store(loss)
        grad_info = backward.grad_graph_info
        back = backward.call_with_info(dx, args=grad_info.inputs_dict(info))
        gradients = grad_info.fwd_parent_ins_to_grad_parent_outs(info, back)
        for weight in weights.tensors:
            ops.scaled_add_(weight, gradients[weight], b=-0.5)
    start = {name: weight.data.copy() for name, weight in weights.to_dict().items()}
    with popxl.Session(ir, "ipu_hw") as session:
        found = [session.run({images: X, classes: LABELS})[losses] for _ in range(steps)]
        values = session.get_tensors_data(weights.tensors)
        end = {name: values[weight].copy() for name, weight in weights.to_dict().items()}
    return found, start, end


def trained_by_tensorflow(start, layers, steps=3):
    variables = {name: tf.Variable(value) for name, value in start.items()}
    losses = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            x = tf.constant(X)
            for layer in layers:
                x = x @ variables[f"{layer}.weight"] + variables[f"{layer}.bias"]
                x = tf.nn.gelu(x, approximate=True) if layer != layers[-1] else x
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, x))
        for variable, gradient in zip(
            variables.values(), tape.gradient(loss, list(variables.values()))
        ):
            variable.assign_sub(0.5 * gradient)
        losses.append(loss.numpy())
    return losses, {name: variable.numpy() for name, variable in variables.items()}


@pytest.mark.parametrize(
    ("net", "layers"),
    [(Net, ["fc1", "fc2"]), (Outlined, ["fc1", "fc2", "last"])],
    ids=["inlined", "outlined"],
)
def test_training_as_in_the_tutorial_equals_that_of_tensorflow(net, layers):
    losses, start, end = trained(net())
    expected_losses, expected = trained_by_tensorflow(start, layers)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(end[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


class Square(addons.Module):
    """x² w with a gradient of its own, which is three times the true one by x."""

    def build(self, x: popxl.Tensor):
        w = self.add_variable_input("w", partial(np.full, (), 2.0), x.dtype)
        square = x * x
        self.aux["x"], self.aux["w"], self.aux["square"] = x, w, square
        self.aux["factor"] = 6.0
        return square * w

    def build_grad(self, slope: popxl.Tensor):
        self.var_grad["w"] = ops.sum(slope * self.aux["square"])
        return slope * self.aux["x"] * self.aux["w"] * self.aux["factor"]


class Caller(addons.Module):
    """A module with one that has a gradient of its own."""

    def build(self, x: popxl.Tensor):
        (y,) = self.call_module(Square(), "part")(x + 1.0)
        return ops.sum(y)


@pytest.mark.parametrize("module", [Square, Caller])
def test_own_gradients_are_used(module):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        factories, graph = module().create_graph(x)
        backward = graph.autodiff()
        weights = factories.init()
        info = graph.bind(weights).call_with_info(x)
        shape = info.outputs[0].shape
        back = backward.call_with_info(
            popxl.constant(np.ones(shape, np.float32)),
            args=backward.grad_graph_info.inputs_dict(info),
        )
        found = backward.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, back)
        streams = [addons.ops.host_store(found[t]) for t in (x, *weights.tensors)]
    with popxl.Session(ir) as session:
        by_x, by_w = (session.run()[stream] for stream in streams)
    base = X + 1 if module is Caller else X
    np.testing.assert_allclose(by_x, 12 * base, rtol=1e-5)
    np.testing.assert_allclose(by_w, (base**2).sum(), rtol=1e-5)


def test_wrong_own_gradients_are_refused(main):
    spec = popxl.TensorSpec((2, 4), popxl.float32)

    class Wrong(Square):
        def __init__(self, results, sets=True):
            super().__init__()
            self.results, self.sets = results, sets

        def build_grad(self, slope: popxl.Tensor):
            if self.sets:
                self.var_grad["w"] = ops.sum(slope)
            return [slope] * self.results

    for module, phrase in (
        (Wrong(0), "Not all forward graph inputs"),
        (Wrong(2), "Too many outputs"),
        (Wrong(1, False), "Not all variable gradients have been specified"),
    ):
        with pytest.raises(Exception, match=phrase):
            module.create_graph(spec)[1].autodiff()

    class Shapes(Square):
        def build_grad(self, slope: popxl.Tensor):
            with pytest.raises(KeyError, match="Not a variable"):
                self.var_grad["v"] = slope
            with pytest.raises(ValueError, match="does not match the variable"):
                self.var_grad["w"] = slope
            self.var_grad["w"] = ops.sum(slope)
            return ops.sum(slope)

    with pytest.raises(ValueError, match="does not match the `grad_required`"):
        Shapes().create_graph(spec)[1].autodiff()

    class Open(Square):
        def build_grad(self, *slopes):
            return slopes

    with pytest.raises(TypeError, match="fixed number"):
        Open().create_graph(spec)[1].autodiff()
    module = Square()
    graph = module.create_graph(spec)[1]
    with pytest.raises(ValueError, match="each at most once"):
        module.create_grad_graph(graph, grads_provided=graph.graph.inputs)
    with pytest.raises(Exception, match="in `build_grad` only"):
        module.var_grad  # noqa: B018
    with pytest.raises(ValueError, match="cannot use graph caching"):
        Square(cache=True)
    with pytest.raises(ValueError, match="grad_inlining_error must be"):
        Square(grad_inlining_error="never")


def test_graphs_with_own_gradients_are_differentiated_by_these_only(main):
    class Inlines(addons.Module):
        def __init__(self, how):
            super().__init__()
            self.part = Square(grad_inlining_error=how)

        def build(self, x: popxl.Tensor):
            return self.part(x)

    spec = popxl.TensorSpec((2, 4), popxl.float32)
    with pytest.raises(Exception, match="You are calling this module directly but `build_grad`"):
        Inlines("error").create_graph(spec)
    with pytest.warns(UserWarning, match="You are calling this module directly"):
        Inlines("warning").create_graph(spec)
    Inlines("none").create_graph(spec)

    graph = Square().create_graph(spec)[1]

    def calls(x: popxl.Tensor, w: popxl.Tensor):
        return graph.call(x, w)

    with pytest.raises(popxl.errors.popart_exception, match="marked as unsafe to autodiff"):
        addons.autodiff(popxl.gir().create_graph(calls, spec, graph.args.w))


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
    with pytest.raises(ValueError, match="does not have one"):
        graph.autodiff(method="build_grad")
    assert graph.autodiff().graph.name == "Linear_subgraph(0)_bwd"
    with pytest.raises(Exception, match="Autodiff has already been applied"):
        graph.autodiff()
    assert graph.copy().autodiff_applied and graph.autodiff(force=True)
