"""Shards of tensors over replicas, against NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl_addons import rts
from popxl_addons.named_replica_grouping import NamedReplicaGrouping

RNG = np.random.default_rng(3)


def test_specs_of_shards():
    spec = popxl.TensorSpec((4, 6), popxl.float16)
    group = popxl.Ir(12).replica_grouping
    thirds = rts.replica_sharded_spec(spec, shard_over=group(4, 3))
    assert thirds == popxl.TensorSpec((8,), popxl.float16, (4, 6))
    assert rts.replica_sharded_spec(spec, group()).shape == (2,)
    odd = popxl.Ir(5).replica_grouping()
    for kept, over in ((spec, group(1, 1)), (spec, odd), (thirds, group(1, 2))):
        assert rts.replica_sharded_spec(kept, over) == kept
    with pytest.raises(TypeError, match="must be a popxl.ReplicaGrouping"):
        rts.replica_sharded_spec(spec, 3)


def reduced(values, op):
    return values.sum(0) if op == "add" else values.mean(0)


@pytest.mark.parametrize(("replicas", "op"), [(1, "add"), (2, "mean"), (4, "add")])
@pytest.mark.parametrize("use_io_tiles", [False, True])
def test_reductions_are_sharded_and_gathered_again(replicas, op, use_io_tiles):
    """One tensor is sharded over all replicas, one over pairs, and one cannot be divided."""
    ir = popxl.Ir(replicas)
    shapes = {"all": (4, 3), "pairs": (8,), "odd": (3,)}
    with ir.main_graph, popxl.in_sequence():
        pairs = ir.replica_grouping(group_size=min(2, replicas))
        streams = {name: popxl.h2d_stream(shape, popxl.float32) for name, shape in shapes.items()}
        tensors = addons.NamedTensors.from_dict(
            {name: popxl.ops.host_load(stream) for name, stream in streams.items()}
        )
        groups = NamedReplicaGrouping.from_dict({"pairs": pairs})
        reduce, names = rts.reduce_replica_sharded_graph(tensors, op, use_io_tiles, groups)
        assert names == ["all", "odd", "pairs"]
        shards = addons.NamedTensors.pack(names, reduce.bind(tensors).call())
        sizes = {name: tensor.shape for name, tensor in shards.to_dict().items()}
        if replicas > 1:
            assert sizes == {"all": (12 // replicas,), "odd": (3,), "pairs": (4,)}
            assert shards.all.meta_shape == (4, 3)
        gather, _ = rts.all_gather_replica_sharded_graph(shards, use_io_tiles, groups)
        whole = addons.NamedTensors.pack(names, gather.bind(shards).call())
        assert {name: tensor.shape for name, tensor in whole.to_dict().items()} == shapes
        targets = {name: addons.ops.host_store(t) for name, t in whole.to_dict().items()}
    data = {name: RNG.normal(size=(replicas, *s)).astype(np.float32) for name, s in shapes.items()}
    lanes = {streams[name]: value if replicas > 1 else value[0] for name, value in data.items()}
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run(lanes)
    for name, value in data.items():
        for replica in found[targets[name]].reshape(replicas, *shapes[name]):
            np.testing.assert_allclose(replica, reduced(value, op), rtol=1e-5, atol=1e-6)
