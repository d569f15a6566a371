"""Modules of the addons that programs import by path."""

from __future__ import annotations

import typing

import popxl
import popxl_addons as addons
import pytest

# In the original, each of these is a package, and a module in it of the same name.
TWO_PATHS = """cross_entropy_sharded_loss cross_entropy_sharded_wr_loss fp8_mse_scale
    grad_reduce_square_add group_quantize_decompress layer_norm_distributed linear_layout
    replicated_all_reduce_TP rotary_pos_embed""".split()


@pytest.mark.parametrize("order", [1, -1])
def test_ops_have_two_paths_in_fresh_process(order, run_python):
    for_each = [
        line
        for name in TWO_PATHS
        for line in [
            f"from popxl_addons.ops.{name} import {name}",
            f"from popxl_addons.ops.{name}.{name} import {name} as other",
            f"import popxl_addons.ops.{name}.{name}",
        ][::order]
        + [f"assert {name} is other is popxl_addons.ops.{name}.{name}"]
    ]
    run_python("\n".join(for_each) + "\n")


def test_modules_have_their_public_names():
    from popxl_addons.graph_common import GraphLike
    from popxl_addons.layers.group_norm import GroupNorm
    from popxl_addons.layers.layer_norm import LayerNorm
    from popxl_addons.ops.cross_entropy_sharded_loss.cross_entropy_sharded_loss import (
        REDUCTION_TYPE,
    )
    from popxl_addons.ops.fp8_utils import float8_143_def, float8_152_def
    from popxl_addons.ops.replicated_all_reduce_TP.replicated_all_reduce_TP import (
        replicated_all_reduce,
    )
    from popxl_addons.ops.streams import host_load
    from popxl_addons.transforms.use_fc_pass import disable_fc_pass

    assert typing.get_args(REDUCTION_TYPE) == ("mean", "sum", "none")
    assert typing.get_args(GraphLike) == (popxl.Graph, addons.GraphWithNamedArgs)
    assert (GroupNorm, LayerNorm) == (addons.layers.GroupNorm, addons.layers.LayerNorm)
    assert host_load is addons.host_load and disable_fc_pass is addons.disable_fc_pass
    assert replicated_all_reduce is addons.ops.replicated_all_reduce_TP.replicated_all_reduce
    assert (float8_143_def.max_value, float8_152_def.min_exp) == (240, -17)


def test_package_has_functions_of_its_modules():
    from popxl_addons.transforms.repeat_graph import repeat_graph

    assert addons.repeat_graph is repeat_graph
    assert addons.NamedReplicaGrouping is addons.named_replica_grouping.NamedReplicaGrouping
