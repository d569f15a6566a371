"""Groupings of replicas by name, and their parts inside processes and IPU-Link domains."""

from __future__ import annotations

import popxl
import pytest
from popxl_addons import named_replica_grouping as groupings


def test_names_have_one_grouping():
    ir = popxl.Ir(4)
    pairs = ir.replica_grouping(group_size=2)
    tree = groupings.NamedReplicaGrouping.build_groups(["a.b", "a.c", "d"], pairs)
    assert tree.keys_flat() == ["a.b", "a.c", "d"]
    assert tree.a.c is pairs and set(tree.values_flat()) == {pairs}


@pytest.mark.parametrize(
    ("replicas", "stride", "expected"),
    [(8, 1, (1, 8, False)), (128, 1, (1, 64, True)), (128, 2, (2, 32, True))],
)
def test_domains_have_64_replicas(replicas, stride, expected):
    ir = popxl.Ir(replicas)
    with ir.main_graph:
        group = ir.replica_grouping(stride)
        inside = groupings.get_ild_replica_grouping(group)
        assert (inside.stride, inside.group_size, groupings.is_cross_ild(group)) == expected
        assert not groupings.is_cross_ild(inside)
        # All replicas are in one process.
        assert not groupings.is_cross_instance(group)
        assert groupings.get_instance_replica_grouping() == ir.replica_grouping()
