"""Which IPU of the device an op is on."""

from __future__ import annotations

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2, node_def_pb2

from tensorflow_ipu.compiler.program import SHARDING_ATTRIBUTE, Program


def sharding_attribute(ipus: list[int]) -> attr_value_pb2.AttrValue:
    """Returns the attribute value that places an op on `ipus`."""
    sharding = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.MAXIMAL,
        tile_assignment_dimensions=[len(ipus)],
        tile_assignment_devices=ipus,
    )
    return attr_value_pb2.AttrValue(s=sharding.SerializeToString())


def node_ipus(node: node_def_pb2.NodeDef) -> tuple[int, ...]:
    """Returns the IPUs that a node asks for; empty when it asks for none."""
    if SHARDING_ATTRIBUTE not in node.attr:
        return ()
    sharding = xla_data_pb2.OpSharding.FromString(node.attr[SHARDING_ATTRIBUTE].s)
    return tuple(sharding.tile_assignment_devices)


def ipus_used(program: Program) -> int:
    """Returns how many IPUs one replica of a Program needs: one more than its highest index."""
    return 1 + max((ipu for _, node in program.nodes() for ipu in node_ipus(node)), default=0)
