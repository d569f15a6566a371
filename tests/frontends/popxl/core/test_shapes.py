"""Integers of NumPy as counts."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops


def test_counts_may_be_integers_of_numpy():
    two = np.prod([1, 2])
    ir = popxl.Ir(replication=two)
    ir.num_host_transfers = two
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 4), np.float32))
        assert [t.shape for t in ops.split(x, two, axis=np.int32(1))] == [(2, 2), (2, 2)]
        assert ops.subsample(x, two).shape == (1, 4)
        buffer = popxl.remote_buffer(x.shape, x.dtype, two)
        assert addons.layers.Conv2D(1, two).kernel_size == (2, 2)
        assert ir.replica_grouping(group_size=two).num_groups == 1
    for count in (ir.replication_factor, ir.num_host_transfers, buffer.entries):
        assert type(count) is int and count == 2


@pytest.mark.parametrize("count", [True, 2.0, np.float32(2), "2", 0])
def test_other_counts_are_refused(count):
    with pytest.raises(ValueError, match="must be an integer >= 1"):
        popxl.Ir(replication=count)
