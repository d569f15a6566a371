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
    assert groupings.fill_none_group(None, pairs) is pairs
    assert groupings.fill_none_group(ir.replica_grouping(), pairs) == ir.replica_grouping()


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


def test_size_of_domains_is_an_option_of_target(monkeypatch):
    with popxl.Ir(8).main_graph:
        assert groupings.get_ild_size_from_popdist() == 8
        monkeypatch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": "4"}')
        assert groupings.get_ild_size_from_popdist() == 4
        assert groupings.get_ild_replica_grouping(replica_grouping=None).group_size == 4
        assert groupings.is_cross_ild(replica_grouping=popxl.gir().replica_grouping())
        monkeypatch.setenv("POPLAR_TARGET_OPTIONS", "[1]")
        with pytest.raises(ValueError, match="must be a JSON object"):
            groupings.get_ild_size_from_popdist()
