"""Ops of layers that are spread over replicas or IPUs: values and gradients, against NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons.ops import replicated_all_reduce_TP as tp
from popxl_addons.ops import replicated_strided_collectives as strided
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.cross_entropy_sharded_wr_loss import cross_entropy_sharded_wr_loss
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed

from tests.support.popxl import popxl_programs

ERROR = popxl.errors.popart_exception
# Replicas, stride and size of groups.
GROUPS = [(1, 1, 1), (2, 1, 2), (4, 2, 2), (4, 1, 4)]
TYPES = [*((*group, np.float32) for group in GROUPS), (2, 1, 2, np.float16)]
RNG = np.random.default_rng(11)


def members_of(replica, stride, size):
    first = replica // (stride * size) * stride * size + replica % stride
    return [first + i * stride for i in range(size)]


def differentiated(fn, arguments, slope, required=None):
    """Calls a function as a graph, and its gradient graph; returns the output and gradients."""
    graph = popxl.gir().create_graph(fn, *arguments)
    required = graph.inputs if required is None else [graph.inputs[i] for i in required]
    gradient = addons.autodiff(graph, grads_required=required)
    info = ops.call_with_info(graph, *arguments)
    output = info.outputs[0]
    return output, gradient.call(slope, args=gradient.grad_graph_info.inputs_dict(info))


def run(build, inputs, replicas):
    """Runs a program; inputs and results have the replicas first, also if it is one."""
    given = inputs if replicas > 1 else [array[0] for array in inputs]
    found = popxl_programs.run(build, given, replicas=replicas)
    return found if replicas > 1 else {name: array[np.newaxis] for name, array in found.items()}


REDUCTIONS = {
    # Name: the function, its op, whether values and gradients are reduced.
    "tp": (tp.replicated_all_reduce, "add", True, True),
    "tp inputs": (tp.replicated_all_reduce_identical_inputs, "add", False, True),
    "tp gradients": (tp.replicated_all_reduce_identical_grad_inputs, "add", True, False),
    "strided": (strided.replicated_all_reduce_strided, "mean", True, True),
    "strided inputs": (
        strided.replicated_all_reduce_strided_identical_inputs,
        "mean",
        False,
        True,
    ),
    "strided gradients": (
        strided.replicated_all_reduce_strided_identical_grad_inputs,
        "add",
        True,
        False,
    ),
}


@pytest.mark.parametrize(("replicas", "stride", "size"), GROUPS)
def test_reductions_over_groups_and_their_gradients(replicas, stride, size):
    x, slope = RNG.normal(size=(2, replicas, 2, 3)).astype(np.float32)

    def build(t, slope):
        group = popxl.gir().replica_grouping(stride, size)
        found = {}
        for name, (reduce, op, _, _) in REDUCTIONS.items():
            y, (dt,) = differentiated(
                lambda t, reduce=reduce, op=op: reduce(t, op, group), [t], slope
            )
            found |= {name: y, f"d {name}": dt}
        shard = strided.replicated_reduce_scatter_strided(t, "mean", group, True)
        tensors = addons.NamedTensors.from_dict({"b.x": t, "a": slope})
        graph, names = strided.replicated_all_reduce_strided_graph(tensors, "add", group, True)
        assert names == ["a", "b.x"] and graph.args.keys_flat() == names
        by_graph = graph.bind(tensors).call()
        found |= dict(zip(("graph slope", "graph x"), by_graph))
        return found | {
            "scattered": shard,
            "whole": strided.replicated_all_gather_strided(shard, group),
            "flat": strided.replicated_all_gather_strided(t, group),
        }

    found = run(build, [x, slope], replicas)
    for replica in range(replicas):
        members = members_of(replica, stride, size)
        place = members.index(replica)
        expected = {
            "graph x": x[members].sum(0),
            "graph slope": slope[members].sum(0),
            "whole": x[members].mean(0),
            "flat": x[members].reshape(-1),
            "scattered": x[members].mean(0).reshape(size, -1)[place] if 6 % size == 0 else None,
        }
        for name, (_, op, reduces, reduces_gradient) in REDUCTIONS.items():
            reduce = np.sum if op == "add" else np.mean
            expected[name] = reduce(x[members], 0) if reduces else x[replica]
            given = slope[members]
            expected[f"d {name}"] = reduce(given, 0) if reduces_gradient else slope[replica]
        for name, wanted in expected.items():
            if wanted is not None:
                np.testing.assert_allclose(found[name][replica], wanted, rtol=1e-5, err_msg=name)


def test_other_reductions_are_refused():
    with popxl.Ir(2).main_graph:
        t = popxl.constant(np.ones(3, np.float32))
        for name, (reduce, *_) in REDUCTIONS.items():
            for op in ("max", "mean") if name.startswith("tp") else ("max", "square_add"):
                with pytest.raises(ERROR, match="supported by"):
                    reduce(t, op)
        with pytest.raises(ERROR, match="supported by strided collectives"):
            strided.replicated_reduce_scatter_strided(t, "max")


CLASSES, ITEMS = 12, 5


def softmax(x):
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def sharded_case(replicas, stride, size, dtype):
    """Returns logits and offset indices of each replica, and all logits and labels of its group."""
    part = CLASSES // size
    whole = {}
    logits, indices, of_replica = [], [], []
    for replica in range(replicas):
        members = members_of(replica, stride, size)
        if members[0] not in whole:
            values = (RNG.normal(size=(ITEMS, CLASSES)) * 3).astype(dtype)
            whole[members[0]] = values, RNG.integers(0, CLASSES, ITEMS)
        values, labels = whole[members[0]]
        first = members.index(replica) * part
        logits.append(values[:, first : first + part])
        indices.append((labels - first).astype(np.int32))
        of_replica.append((values.astype(np.float64), labels, slice(first, first + part)))
    return np.stack(logits), np.stack(indices), of_replica


@pytest.mark.parametrize(("replicas", "stride", "size", "dtype"), TYPES)
def test_losses_of_classes_on_several_replicas(replicas, stride, size, dtype):
    logits, indices, cases = sharded_case(replicas, stride, size, dtype)
    slope = np.full((replicas, ITEMS), 2.0, dtype)

    def build(x, index, slope):
        group = popxl.gir().replica_grouping(stride, size)
        one = popxl.constant(np.ones((), dtype))
        found = {}
        for name in ("none", "mean", "sum", "ignoring"):
            reduction = "mean" if name == "ignoring" else name

            def loss(x, index, reduction=reduction, name=name):
                # The label of the first item is ignored, wherever it is.
                ignored = ops.slice(index, 0, 1) if name == "ignoring" else None
                return cross_entropy_sharded_loss(x, index, ignored, group, reduction)

            start = slope if name == "none" else one
            y, (dx,) = differentiated(loss, [x, index], start, [0])
            found |= {name: y, f"d {name}": dx}
        return found

    found = run(build, [logits, indices, slope], replicas)
    for replica, (values, labels, part) in enumerate(cases):
        probs = softmax(values)
        losses = -np.log(probs[np.arange(ITEMS), labels])
        by_x = (probs - np.eye(CLASSES)[labels])[:, part]
        counts = labels != labels[0]
        expected = {
            "none": losses,
            "mean": losses.mean(),
            "sum": losses.sum(),
            "ignoring": losses[counts].sum() / max(counts.sum(), 1),
            "d none": by_x * 2,
            "d mean": by_x / ITEMS,
            "d sum": by_x,
            "d ignoring": by_x * counts[:, np.newaxis] / max(counts.sum(), 1),
        }
        for name, wanted in expected.items():
            assert found[name].dtype == dtype
            tolerance = 1e-5 if dtype == np.float32 else 4e-3
            np.testing.assert_allclose(
                found[name][replica], wanted, rtol=tolerance, atol=tolerance, err_msg=name
            )


def test_losses_refuse_other_reductions():
    with popxl.Ir().main_graph:
        x, n = popxl.constant(np.zeros((2, 3), np.float32)), popxl.constant([0, 1])
        with pytest.raises(ValueError, match="Not a valid reduction"):
            cross_entropy_sharded_loss(x, n, reduction="median")
        assert cross_entropy_sharded_loss(x, n, ignore_index=1).shape == ()


@pytest.mark.parametrize("slopes", [1, 2])
@pytest.mark.parametrize("places", [[0, 1, 2], None])
def test_losses_of_classes_on_several_ipus(places, slopes):
    widths = (5, 4, 3)
    values, labels = RNG.normal(size=(ITEMS, CLASSES)), RNG.integers(0, CLASSES, ITEMS)
    parts = np.split(values.astype(np.float32), np.cumsum(widths)[:-1], 1)
    ir = popxl.Ir()
    with ir.main_graph:
        tensors, indices = [], []
        for ipu, part in enumerate(parts):
            with popxl.ipu(ipu):
                tensors.append(popxl.constant(part) + 0.0)
                indices.append(popxl.constant(labels.astype(np.int32)) + 0)

        def loss(x, y, z, *indices: popxl.Tensor):
            if places is None:
                with pytest.raises(ValueError, match="Could not automatically infer the IPU"):
                    cross_entropy_sharded_wr_loss([x, y, z], indices)
                copies = [t.copy_to_ipu(i, i) for i, t in enumerate((x, y, z))]
                return cross_entropy_sharded_wr_loss(copies, indices)
            return cross_entropy_sharded_wr_loss([x, y, z], indices, places)

        graph = ir.create_graph(loss, *tensors, *indices)
        # The gradients of some of the losses are enough for those of all logits.
        provided = graph.outputs[:slopes]
        gradient = addons.autodiff(graph, provided, graph.inputs[:3])
        info = ops.call_with_info(graph, *tensors, *indices)
        slope = [popxl.constant(np.ones(ITEMS, np.float32))] * slopes
        inputs = gradient.grad_graph_info.inputs_dict(info)
        results = [*info.outputs[:3], *gradient.call(*slope, args=inputs)]
        streams = []
        for tensor in results:
            streams.append(popxl.d2h_stream(tensor.shape, tensor.dtype))
            ops.host_store(streams[-1], tensor)
        with pytest.raises(ValueError, match="as many indices and IPUs"):
            cross_entropy_sharded_wr_loss(tensors, indices[:1], places)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()
    probs = softmax(values)
    by_x = probs - np.eye(CLASSES)[labels]
    expected = [-np.log(probs[np.arange(ITEMS), labels])] * 3
    expected += np.split(by_x, np.cumsum(widths)[:-1], 1)
    for stream, wanted in zip(streams, expected):
        np.testing.assert_allclose(found[stream], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("replicas", "stride", "size", "dtype"), TYPES)
def test_rows_on_several_replicas_are_normalized_as_whole(replicas, stride, size, dtype):
    x, slope = RNG.normal(size=(2, replicas, 4, 6)).astype(dtype)
    w, b = RNG.normal(size=(2, replicas, 6)).astype(dtype)

    def build(x, w, b, slope):
        group = popxl.gir().replica_grouping(stride, size)

        def normalize(x, w, b):
            return layer_norm_distributed(x, w, b, 1e-3, group)

        y, gradients = differentiated(normalize, [x, w, b], slope)
        return {"y": y, **dict(zip(("x", "w", "b"), gradients))}

    found = run(build, [x, w, b, slope], replicas)
    for replica in range(replicas):
        members = members_of(replica, stride, size)
        place = members.index(replica)
        part = slice(6 * place, 6 * place + 6)
        rows, slopes = (np.concatenate(list(a[members].astype(np.float64)), 1) for a in (x, slope))
        weight, bias = (np.concatenate(list(a[members].astype(np.float64))) for a in (w, b))
        deviation = np.sqrt(rows.var(1, keepdims=True) + 1e-3)
        normal = (rows - rows.mean(1, keepdims=True)) / deviation
        inner = slopes * weight
        by_x = inner - inner.mean(1, keepdims=True)
        by_x = (by_x - normal * (inner * normal).mean(1, keepdims=True)) / deviation
        expected = {
            "y": (normal * weight + bias)[:, part],
            "x": by_x[:, part],
            "w": (slopes * normal).sum(0)[part],
            "b": slopes.sum(0)[part],
        }
        tolerance = 1e-5 if dtype == np.float32 else 1e-2
        for name, wanted in expected.items():
            assert found[name].dtype == dtype
            np.testing.assert_allclose(
                found[name][replica], wanted, rtol=tolerance, atol=tolerance, err_msg=name
            )


def test_normalization_takes_matrices():
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="takes a matrix"):
        t = popxl.constant(np.ones((2, 3, 4), np.float32))
        layer_norm_distributed(t, t, t)
