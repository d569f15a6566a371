"""Layers whose variables are spread over groups of replicas, against NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons import layers
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed

RNG = np.random.default_rng(14)


@pytest.mark.parametrize(("replicas", "stride", "size"), [(1, 1, 1), (2, 1, 2), (4, 2, 2)])
def test_rows_are_normalized_over_variable_sharded_replicas(replicas, stride, size):
    whole = RNG.normal(size=(replicas // size, 3, 4 * size)).astype(np.float32)
    weight, bias = RNG.normal(size=(2, size, 4)).astype(np.float32)
    ir = popxl.Ir(replicas)
    group = [replica % stride + replica // (stride * size) * stride for replica in range(replicas)]
    place = [replica // stride % size for replica in range(replicas)]
    x = np.stack([whole[g][:, p * 4 : p * 4 + 4] for g, p in zip(group, place)])
    with ir.main_graph:
        stream = popxl.h2d_stream((3, 4), popxl.float32)
        t = ops.host_load(stream)
        grouping = ir.replica_grouping(stride, size)
        factories, graph = LayerNormDistributed(grouping).create_graph(t)
        variables = factories.init()
        assert variables.weight.replica_grouping == grouping.transpose()
        result = addons.ops.host_store(graph.bind(variables).call(t)[0])
    session = popxl.Session(ir, "ipu_hw")
    fits = (weight, bias) if size > 1 else (weight[0], bias[0])
    session.write_variables_data(dict(zip((variables.weight, variables.bias), fits)))
    with session:
        found = session.run({stream: x if replicas > 1 else x[0]})[result]
    found = found if replicas > 1 else found[np.newaxis]
    rows = whole - whole.mean(-1, keepdims=True)
    rows /= np.sqrt(whole.var(-1, keepdims=True) + 1e-5)
    rows = rows * weight.reshape(-1) + bias.reshape(-1)
    for replica, (g, p) in enumerate(zip(group, place)):
        expected = rows[g][:, p * 4 : p * 4 + 4]
        np.testing.assert_allclose(found[replica], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("replicas", "stride", "size"), [(2, 1, 1), (4, 2, 2)])
def test_partial_table_gives_zeros_for_other_rows(replicas, stride, size):
    ir = popxl.Ir(replicas)
    shards = replicas // size
    indices = np.array([0, 15, 16, 17, 15], np.int32)
    slope = RNG.normal(size=(5, 3)).astype(np.float32)
    with ir.main_graph:
        grouping = ir.replica_grouping(stride, size)
        offsets = layers.Embedding.get_offsets(20, shards)
        table = layers.Embedding(popxl.float32, 20, 3, replica_grouping=grouping)
        offset = popxl.variable(offsets, popxl.int32, replica_grouping=grouping)
        local = popxl.constant(indices) - offset
        factories, graph = table.create_graph(local)
        backward = addons.autodiff(graph, grads_required=graph.args.tensors)
        variables = factories.init()
        info = graph.bind(variables).call_with_info(local)
        inputs = backward.grad_graph_info.inputs_dict(info)
        (gradient,) = backward.call(popxl.constant(slope), args=inputs)
        result, by_table = map(addons.ops.host_store, (info.outputs[0], gradient))
    weight = variables.weight.data
    assert weight.shape == (shards, 16, 3)
    with popxl.Session(ir, "ipu_hw") as session:
        found, gradients = map(session.run().get, (result, by_table))
    whole = weight.reshape(-1, 3)[indices]
    for replica, group in enumerate(grouping.assignment):
        is_own = (indices // 16 == group)[:, np.newaxis]
        np.testing.assert_array_equal(found[replica], np.where(is_own, whole, 0))
        expected = np.zeros((shards * 16, 3), np.float32)
        np.add.at(expected, indices, slope * is_own)
        expected = expected.reshape(shards, 16, 3)[group]
        np.testing.assert_allclose(gradients[replica], expected, rtol=1e-6)


def test_linear_layers_may_differ_between_groups():
    ir = popxl.Ir(2)
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    with ir.main_graph:
        single = ir.replica_grouping(group_size=1)
        t = popxl.constant(x)
        factories, graph = layers.Linear(4, replica_grouping=single).create_graph(t)
        variables = factories.init()
        result = addons.ops.host_store(graph.bind(variables).call(t)[0])
    weight = variables.weight.data
    assert weight.shape == (2, 3, 4) and (weight[0] != weight[1]).any()
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_allclose(session.run()[result], x @ weight, rtol=1e-5, atol=1e-6)


class Spread(addons.Module):
    """Two products whose hidden features are spread over the replicas of a group."""

    def __init__(self, group):
        super().__init__()
        self.group, parts = group, group.transpose()
        self.wide = layers.Linear(6 // group.group_size, replica_grouping=parts)
        self.narrow = layers.Linear(2, bias=False, replica_grouping=parts)

    def build(self, x: popxl.Tensor):
        tp = addons.ops.replicated_all_reduce_TP
        x = tp.replicated_all_reduce_identical_inputs(x, group=self.group)
        y = self.narrow(ops.tanh(self.wide(x)))
        return tp.replicated_all_reduce_identical_grad_inputs(y, group=self.group)


@pytest.mark.parametrize(("replicas", "stride", "size"), [(1, 1, 1), (2, 1, 2), (4, 1, 2)])
def test_layers_in_parts_train_as_whole_ones(replicas, stride, size):
    x, slope = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 2))
    w, b, v = RNG.normal(size=(4, 6)), RNG.normal(size=6), RNG.normal(size=(6, 2))
    ir = popxl.Ir(replicas)
    with ir.main_graph:
        t, dy = (popxl.constant(a, popxl.float32) for a in (x, slope))
        factories, graph = Spread(ir.replica_grouping(stride, size)).create_graph(t)
        variables = factories.init()
        info = graph.bind(variables).call_with_info(t)
        # Gradients may be made after the call, whose outputs grow then.
        backward = addons.autodiff(graph, graph.graph.outputs[:1])
        known = backward.grad_graph_info
        back = backward.call_with_info(dy, args=known.inputs_dict(info))
        by = known.fwd_parent_ins_to_grad_parent_outs(info, back)
        names = ["wide.weight", "wide.bias", "narrow.weight"]
        results = [info.outputs[0], by[t], *(by[variables[name]] for name in names)]
        streams = list(map(addons.ops.host_store, results))
    # The parts of each replica of a group: columns of the first weight, rows of the second.
    parts = [np.split(w, size, 1), np.split(b, size), np.split(v, size)]
    session = popxl.Session(ir, "ipu_hw")
    given = (np.stack(part) if size > 1 else part[0] for part in parts)
    session.write_variables_data(
        {variables[name]: array.astype(np.float32) for name, array in zip(names, given)}
    )
    with session:
        found = session.run()
    hidden = np.tanh(x @ w + b)
    inner = slope @ v.T * (1 - hidden**2)
    whole = [hidden @ v, inner @ w.T]
    spread = [np.split(x.T @ inner, size, 1), np.split(inner.sum(0), size)]
    spread.append(np.split(hidden.T @ slope, size))
    for replica in range(replicas):
        expected = [*whole, *(part[replica % size] for part in spread)]
        for stream, wanted in zip(streams, expected):
            array = found[stream][replica] if replicas > 1 else found[stream]
            np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)
