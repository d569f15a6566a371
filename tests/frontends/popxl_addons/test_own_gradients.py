"""Modules that make their own gradients."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops

from tests.support.popxl.popxl_modules import Linear, Square

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, 6).astype(np.int32)
SPEC = popxl.TensorSpec((2, 4), popxl.float32)


class Caller(addons.Module):
    """A module with a submodule that has a gradient of its own."""

    def build(self, x: popxl.Tensor):
        (y,) = self.call_module(Square(), "part")(x + 1.0)
        return ops.sum(y)


class OuterCaller(addons.Module):
    """A module that calls a module with a nested gradient of its own."""

    def build(self, x: popxl.Tensor):
        return self.call_module(Caller())(x)


@pytest.mark.parametrize("module", [Square, Caller, OuterCaller])
def test_own_gradients_are_used(module):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        factories, graph = module().create_graph(x)
        assert len(graph.called_graphs_grad_info) == (module is not Square)
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
    base = X if module is Square else X + 1
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
        (Wrong(0), "Not all forward graph inputs have been specified"),
        (Wrong(2), "Too many outputs in the grad graph"),
        (Wrong(1, False), "Not all variable gradients have been specified"),
    ):
        with pytest.raises(Exception, match=phrase):
            module.create_graph(spec)[1].autodiff()

    class Shapes(Square):
        def build_grad(self, slope: popxl.Tensor):
            with pytest.raises(KeyError, match="Not a variable"):
                self.var_grad["v"] = slope
            with pytest.raises(TypeError, match="Not a tensor"):
                self.var_grad["w"] = 1.0
            with pytest.raises(KeyError, match="Not a variable with a gradient"):
                self.var_grad["w"]
            with pytest.raises(ValueError, match="meta-shape of Tensor does not match variable"):
                self.var_grad["w"] = slope
            self.var_grad["w"] = ops.sum(slope)
            return ops.sum(slope)

    with pytest.raises(ValueError, match="of output Tensor at position 0 does not match the `grad"):
        Shapes().create_graph(spec)[1].autodiff()

    class Open(Square):
        def build_grad(self, *slopes):
            return slopes

    with pytest.raises(TypeError, match="must only have a fixed number of positional parameters"):
        Open().create_graph(spec)[1].autodiff()
    module = Square()
    graph = module.create_graph(spec)[1]
    with pytest.raises(ValueError, match="in `grads_provided` is not a output of `fwd_graph`"):
        module.create_grad_graph(graph, grads_provided=graph.graph.inputs)
    with pytest.raises(ValueError, match="do not match the signature"):
        module.create_grad_graph(graph, grads_provided=[])
    for use in (lambda: module.var_grad, lambda: module.aux["x"]):
        with pytest.raises(Exception, match=r" within the `build_graph` method"):
            use()
    with pytest.raises(ValueError, match="cannot use graph caching if you have implemented"):
        Square(cache=True)
    with pytest.raises(ValueError, match="grad_inlining_error should be one of"):
        Square(grad_inlining_error="never")
    with pytest.raises(Exception, match="`from_module` is specified"):
        addons.GraphWithNamedArgs(graph.graph, graph.args).autodiff(method="build_grad")
    with pytest.raises(NotImplementedError):
        Linear(2).create_grad_graph(graph)
    assert graph.from_module is module and list(graph.aux) == ["x", "w", "square", "factor"]


def test_own_gradients_replace_derived_ones(main):
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


def test_empty_gradient_graphs_replace_those_of_called_modules(main):
    class Calls(addons.Module):
        def build(self, x: popxl.Tensor):
            return self.call_module(Square())(x)

    graph = Calls().create_graph(popxl.TensorSpec((2, 4), popxl.float32))[1]
    with pytest.raises(popxl.errors.popart_exception, match="marked as unsafe to autodiff"):
        addons.autodiff(graph, called_graphs_grad_info={})
    assert addons.autodiff(graph).graph.inputs


class TwoByTwo(addons.Module):
    """Two outputs of two inputs and two variables."""

    def build(self, a: popxl.Tensor, n: popxl.Tensor, b: popxl.Tensor):
        v = self.add_variable_input("tree.v", partial(np.full, (), 3.0), a.dtype)
        w = self.add_variable_input("w", partial(np.full, (), 5.0), a.dtype)
        kept = a * 7.0
        self.aux["tensor"], self.aux["number"], self.aux[1] = kept, 11.0, w
        assert "number" in self.aux and "missing" not in self.aux
        with pytest.raises(Exception, match="get items within the `build_graph`"):
            self.aux["number"]
        return a * v, b * w

    def build_grad(self, dy: popxl.Tensor):
        assert self.aux["number"] == 11.0 and "tensor" in self.aux
        with pytest.raises(KeyError):
            self.aux["missing"]
        self.var_grad["tree.v"] = ops.sum(self.aux["tensor"])
        assert self.var_grad["tree.v"].shape == ()
        return dy * self.aux[1]


def test_some_gradients_are_provided_and_some_required(main):
    module = TwoByTwo()
    assert module.implements_grad_graph and not Linear(2).implements_grad_graph
    numbers = popxl.TensorSpec((), popxl.int32)
    _, graph = module.create_graph(SPEC, numbers, SPEC)
    a, n, b, v, w = graph.graph.inputs
    first, second = graph.graph.outputs
    made = module.create_grad_graph(graph, [second], [v, b])
    info = made.grad_graph_info
    # The tensors in `aux` become outputs.
    assert graph.graph.outputs[:2] == (first, second) and graph.graph.outputs[3:] == (w,)
    kept = graph.graph.outputs[2]
    assert info.inputs == (second, kept, w) and info.outputs == (b, v)
    kinds = [connection.connection_type.value for connection in info.expected_inputs]
    assert kinds == ["FwdGrad", "Fwd", "Fwd"] and made.graph.name == f"{graph.graph.name}_bwd"
    assert not len(made.args)
    for provided, required, phrase in (
        ([second, second], [b], "is specified twice in `grads_provided`"),
        ([a], [b], "is not a output"),
        ([second], [b, b], "is specified twice in `grads_required`"),
        ([second], [second], "is not a input of `fwd_graph`"),
        ([second], [n], "is not a input of `fwd_graph`"),
    ):
        with pytest.raises(ValueError, match=phrase):
            module.create_grad_graph(graph, provided, required)


def test_gradients_of_called_graphs_may_be_passed(main):
    _, graph = Square().create_graph(SPEC)
    own = graph.autodiff()

    def calls(x: popxl.Tensor, w: popxl.Tensor):
        return graph.call(x, w)[0]

    outer = popxl.gir().create_graph(calls, SPEC, graph.args.w)
    backward = addons.autodiff(outer, called_graphs_grad_info={graph.graph: own.grad_graph_info})
    assert backward.graph.called_graphs == (own.graph,)
    named = addons.GraphWithNamedArgs(
        outer, called_graphs_grad_info={graph.graph: own.grad_graph_info}
    )
    both = addons.GraphWithNamedArgs(outer, called_graphs_grad_info={graph: own})
    assert both.called_graphs_grad_info == named.called_graphs_grad_info
    assert named.autodiff().graph.called_graphs == (own.graph,)


def test_shards_have_gradients_that_are_shards():
    class Sharded(addons.Module):
        def build(self, x: popxl.Tensor):
            zeros = partial(np.zeros, 4)
            return x + self.add_replica_sharded_variable_input("w", zeros, x.dtype)

        def build_grad(self, dy: popxl.Tensor):
            with pytest.raises(ValueError, match="meta-shape of Tensor does not match variable"):
                self.var_grad["w"] = ops.init((2,), popxl.float32)
            self.var_grad["w"] = dy
            return dy

    with popxl.Ir(2).main_graph:
        spec = popxl.TensorSpec((2,), popxl.float32, (4,))
        assert Sharded().create_graph(spec)[1].autodiff().graph.outputs[0].meta_shape == (4,)
