"""Seeds that last, one for each replica."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops


@pytest.mark.parametrize(("replicas", "stride"), [(1, None), (2, None), (4, 2)])
def test_seeds_are_those_of_the_host_and_last(replicas, stride):
    """With a stride, replicas at that distance have one seed."""
    ir = popxl.Ir(replicas)
    groups = replicas if stride is None else stride
    with ir.main_graph, popxl.in_sequence():
        grouping = None if stride is None else ir.replica_grouping(stride)
        variable, seed = addons.seed_variable(11, grouping)
        assert (seed.shape, seed.dtype) == ((2,), popxl.uint32)
        used = addons.ops.host_store(seed)
        ops.var_updates.copy_var_update_(seed, seed + 1)
    expected = popxl.create_seeds(11, replicas=groups)
    lanes = np.tile(expected.reshape(groups, 2), (replicas // groups, 1)).reshape(
        (replicas, 2) if replicas > 1 else (2,)
    )
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run()[used], lanes)
        np.testing.assert_array_equal(session.run()[used], lanes + 1)
        np.testing.assert_array_equal(session.get_tensor_data(variable), expected + 2)
