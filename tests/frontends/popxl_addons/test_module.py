"""Modules with parts and variables, and training with them against TensorFlow."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl.popxl_modules import Linear, Net, Outlined

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, 6).astype(np.int32)
SPEC = popxl.TensorSpec((2, 4), popxl.float32)


def test_module_graphs_repeat_with_unique_part_names(main):
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
def test_training_as_in_tutorial_equals_that_of_tensorflow(net, layers):
    losses, start, end = trained(net())
    expected_losses, expected = trained_by_tensorflow(start, layers)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(end[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


class Everything(addons.Module):
    """Variables of all kinds, some of them in place of others."""

    def __init__(self):
        super().__init__()
        self.part = Linear(3)

    def build(self, x: popxl.Tensor, factor: float, *others: popxl.Tensor, last: popxl.Tensor):
        zeros = partial(np.zeros, 4)
        first = self.add_variable_input("first", zeros, popxl.float16, by_ref=True)
        for name in ("first", "part", "part.weight"):
            with pytest.raises(ValueError, match="already exists"):
                self.add_variable_input(name, zeros, popxl.float32)
        second = self.add_variable_input("first", zeros, popxl.float32, overwrite=True)
        sharded = self.add_replica_sharded_variable_input("tree.sharded", zeros, popxl.float32)
        third = self.add_variable_factory(addons.VariableFactory(zeros, popxl.float32, "third"))
        renamed = addons.VariableFactory(zeros, popxl.float32, "original")
        fourth = self.add_variable_factory(renamed, "fourth")
        with pytest.raises(ValueError, match="has no name"):
            self.add_variable_factory(addons.VariableFactory(zeros, popxl.float32))
        factories, _ = Linear(2).create_graph(x)
        inputs = self.add_variable_inputs(0, factories=factories)
        assert inputs.keys() == ["weight", "bias"] and inputs.weight.name == "0.weight"
        with pytest.raises(ValueError, match="already exists"):
            self.add_variable_inputs("0", factories)
        with pytest.raises(ValueError, match="negative"):
            self.add_variable_inputs(-1, factories)
        assert self.add_variable_inputs(0, factories, overwrite=True).bias.name.startswith("0.bias")
        assert (first.by_ref, second.dtype, third.name) == (True, popxl.float32, "third")
        assert fourth.name == "original" and sharded.meta_shape == (4,) and sharded.shape == (2,)
        assert len(others) == 2 and factor == 2.0
        y = self.part(x)
        assert y.name.startswith("part/")
        return y, last


def test_names_and_order_of_variables_and_inputs():
    with popxl.Ir(2).main_graph:
        factories, graph = Everything().create_graph(SPEC, 2.0, SPEC, SPEC, last=SPEC)
        again, _ = Everything().create_graph(SPEC, 2.0, SPEC, SPEC, last=SPEC)
    names = ["part.weight", "part.bias", "first", "tree.sharded", "third", "fourth"]
    assert factories.keys_flat() == graph.args.keys_flat() == [*names, "0.weight", "0.bias"]
    assert again.keys_flat() == factories.keys_flat()
    assert factories["first"].dtype is popxl.float32
    assert factories["tree.sharded"].shard_over == 2
    assert graph.graph.name == "Everything_subgraph(0)"
    positional = [tensor.name for tensor in graph.graph.inputs[:4]]
    assert positional == ["x", "others_0", "others_1", "last"]
    assert [t.name for t in graph.graph.inputs[4:6]] == ["first", "first__t0"]
    # Names of parts are scopes of ids, and of no variable.
    assert graph.args.part.weight.name == "part/weight"


def test_graphs_are_made_inside_of_graphs_only():
    with pytest.raises(RuntimeError, match="no graph has been selected"):
        Linear(3).create_graph(SPEC)
    with popxl.Ir().main_graph, pytest.raises(NotImplementedError, match="must override `build`"):
        addons.Module().create_graph(SPEC)


def test_shared_graph_factories_give_each_own_values(main):
    class Counting(addons.Module):
        def build(self, x: popxl.Tensor):
            values = (np.full((), i) for i in range(9))
            return x + self.add_variable_input("w", values, popxl.float32)

    class Shares(addons.Module):
        def build(self, x: popxl.Tensor):
            factories, graph = Counting().create_graph(x)
            for i in range(2):
                inputs = self.add_variable_inputs(i, factories)
                (x,) = graph.bind(inputs).call(x)
            return x

    factories, graph = Shares().create_graph(SPEC)
    variables = factories.init()
    assert [variables[i].w.data for i in range(2)] == [0, 1]
    assert graph.args[1].w.name == "1.w"


def test_modules_of_factories_have_inputs_as_parts(main):
    made = [addons.VariableFactory(partial(np.full, 2, i), popxl.float32) for i in range(2)]

    class Inner(addons.Module):
        def build(self, x: popxl.Tensor):
            self.pair = addons.Module.from_variable_factories(made)
            first, second = self.pair
            assert self.pair[1] is second is getattr(self.pair, "1")
            return x * first + second

    factories, graph = Inner().create_graph(popxl.TensorSpec((2,), popxl.float32))
    assert factories.keys_flat() == ["pair.0", "pair.1"] and len(graph.args.pair) == 2
    with pytest.raises(AttributeError, match="from_list"):
        list(Linear(2))


class Halves(addons.Module):
    """A module without variables that takes a list, and has two outputs."""

    def build(self, parts: list[popxl.Tensor], *, scale: popxl.Tensor):
        return parts[0] * scale, ops.tanh(parts[1] * scale)


class CallsTwice(addons.Module):
    def __init__(self, autodiff):
        super().__init__()
        self.autodiff = autodiff

    def build(self, x: popxl.Tensor):
        linear = Linear(4, cache=True)
        called = self.call_module(linear, "one", self.autodiff)
        again = self.call_module(linear, "two", self.autodiff)
        required = lambda graph: graph.graph.inputs[:2]  # noqa: E731
        halves = self.call_module(Halves(), autodiff="autodiff", grads_required=required)
        for results in (called(x), again(x)):
            assert len(results) == 1
        (x,) = results
        left, right = halves([x, x], scale=popxl.constant(2.0, x.dtype))
        return left + right


@pytest.mark.parametrize("how", ["auto", "none", "autodiff"])
def test_modules_take_immediate_or_later_gradients(how):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X[:2])
        module = CallsTwice(how)
        factories, graph = module.create_graph(x)
        names = ["one.weight", "one.bias", "two.weight", "two.bias"]
        assert factories.keys_flat() == names
        assert len(graph.called_graphs_grad_info) == 1 + (how == "autodiff")
        assert len([g for g in graph.graph.called_graphs if "Linear" in g.name]) == 1
        backward = graph.autodiff(grads_required=[graph.args.two.weight, graph.graph.inputs[0]])
        weights = factories.init()
        info = graph.bind(weights).call_with_info(x)
        (back, by_x) = backward.call(
            popxl.constant(np.ones((2, 4), np.float32)),
            args=backward.grad_graph_info.inputs_dict(info),
        )
        streams = [addons.ops.host_store(tensor) for tensor in (info.outputs[0], back, by_x)]
    values = [weights.two.weight.data.copy(), weights.two.bias.data.copy()]
    with popxl.Session(ir) as session:
        y, found, found_x = (session.run()[stream] for stream in streams)
    hidden = X[:2] @ values[0] + values[1]
    slope = 2 + 2 * (1 - np.tanh(2 * hidden) ** 2)
    np.testing.assert_allclose(y, 2 * hidden + np.tanh(2 * hidden), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, X[:2].T @ slope, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found_x, slope @ values[0].T, rtol=1e-4, atol=1e-5)


def test_other_ways_of_differentiating_calls_are_refused(main):
    with pytest.raises(ValueError, match="autodiff must be one of"):
        addons.Module().call_module(Linear(2), autodiff="later")
