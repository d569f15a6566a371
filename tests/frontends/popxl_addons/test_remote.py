"""Weights in remote memory, loaded layer by layer, against the same program without."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons import remote
from popxl_addons.layers import Linear

X = np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32)
LAYERS = 3


def phased(replicas=1, sharded=False):
    """Runs layers one after the other, each with weights that it loads; returns the result."""
    np.random.seed(5)
    ir = popxl.Ir(replicas)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X)
        factories, graph = Linear(6).create_graph(x)
        buffers = addons.named_variable_buffers(factories, LAYERS, sharded)
        for i in range(LAYERS):
            factories.init_remote(buffers, i, f"layer{i}")
        load, names = addons.load_remote_graph(buffers, LAYERS)
        store = addons.store_remote_graph(buffers, LAYERS)
        for i in range(LAYERS):
            weights = addons.NamedTensors.pack(names, load.call(i))
            if sharded:
                weights = weights.map(
                    lambda t: ops.collectives.replicated_all_gather(t) if t.meta_shape else t
                )
            (x,) = graph.bind(weights).call(x)
        loaded = addons.NamedTensors.pack(names, load.call(0))
        store.bind(loaded.map(lambda t: t * 2.0)).call(1)
        again = remote.load_remote(buffers, 1, use_io_tiles=True)
        remote.store_remote(buffers, again, 2, use_io_tiles=True)
        doubled = addons.ops.host_store(remote.load_remote(buffers, 2).bias)
        result = addons.ops.host_store(x)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()
    assert not found[doubled].any()  # the biases are zeros
    return found[result]


def expected():
    np.random.seed(5)
    with popxl.Ir().main_graph:
        factories, _ = Linear(6).create_graph(popxl.variable(X))
        found = X
        for _ in range(LAYERS):
            found = found @ factories.init().weight.data
    return found


def test_phases_equal_the_program_without():
    np.testing.assert_allclose(phased(), expected(), rtol=1e-5)


def test_phases_of_shards_equal_those_of_whole_weights():
    for replica in phased(2, True):
        np.testing.assert_array_equal(replica, phased())


def test_buffers_have_the_shapes_that_are_asked_for():
    with popxl.Ir(4).main_graph:
        spec = popxl.TensorSpec((4, 3), popxl.float16)
        whole, parts = (addons.create_remote_buffer(spec, 2, shard_over=n) for n in (1, 2))
        assert (whole.tensor_shape, whole.entries) == ((4, 3), 2)
        assert (parts.tensor_shape, parts.meta_shape) == ((6,), (4, 3))
        assert addons.create_remote_buffer(popxl.TensorSpec((3,), popxl.float16, (4, 3))).meta_shape
        with pytest.raises(ValueError, match="Can't shard tensor"):
            addons.create_remote_buffer(popxl.TensorSpec((3,), popxl.float16))
        named = addons.named_buffers(addons.NamedTensors(w=popxl.variable(X)), entries=3)
        assert named.w.tensor_shape == X.shape and named.w.entries == 3
        factories, _ = Linear(6).create_graph(popxl.variable(X))
        for over, shape in ((True, (9,)), (False, (6, 6)), (2, (18,)), ({"weight": 3}, (12,))):
            over = {"bias": 1, **over} if isinstance(over, dict) else over
            buffers = addons.named_variable_buffers(factories, 2, over)
            assert (buffers.weight.tensor_shape, buffers.weight.entries) == (shape, 2)
        for over in (5, 0, "all", {"weight": None, "bias": 1}):
            with pytest.raises(ValueError, match="from 1 to 4"):
                addons.named_variable_buffers(factories, shard_over_dict=over)


@pytest.mark.parametrize("over", [True, False, 4])
def test_buffers_of_shards_hold_these(over):
    ir = popxl.Ir(4)
    with ir.main_graph:
        graph = ir.create_empty_graph()
        with graph:
            _, factory = addons.add_replica_sharded_variable_input(
                "moment", lambda: X, popxl.float32, shard_over=2
            )
        factories = addons.NamedVariableFactories(moment=factory)
        buffers = addons.named_variable_buffers(factories, 2, over)
        assert buffers.moment.tensor_shape == (12,) and buffers.moment.meta_shape == X.shape
        moment = factories.init_remote(buffers, 1).moment
        assert moment.shape == X.shape
