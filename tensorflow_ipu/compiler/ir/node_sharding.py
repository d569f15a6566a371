"""The sharding attribute of nodes: the IPUs of the device that a node is on."""

from __future__ import annotations

import json

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2, node_def_pb2

from tensorflow_ipu.compiler.ir.program import PIPELINE_ATTRIBUTE, SHARDING_ATTRIBUTE, Program

#: The index that stands for all IPUs that a program uses, until it is compiled.
ALL_IPUS = -1


def sharding_attribute(ipus: list[int]) -> attr_value_pb2.AttrValue:
    """Returns the attribute value that places an op on `ipus`."""
    sharding = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.MAXIMAL,
        tile_assignment_dimensions=[len(ipus)],
        tile_assignment_devices=ipus,
    )
    return attr_value_pb2.AttrValue(s=sharding.SerializeToString())


def node_ipus(node: node_def_pb2.NodeDef) -> tuple[int, ...]:
    """Returns the IPUs that a node asks for: none, some, or `ALL_IPUS`."""
    if SHARDING_ATTRIBUTE not in node.attr:
        return ()
    sharding = xla_data_pb2.OpSharding.FromString(node.attr[SHARDING_ATTRIBUTE].s)
    return tuple(sharding.tile_assignment_devices)


def ipus_used(program: Program) -> int:
    """Returns the number of IPUs that one replica of a Program needs.

    That is one more than the highest index among the shards of its ops and the devices of its
    pipelines. A replica occupies that many rounded up to a power of two (`device.system`).
    """
    highest = 0
    for _, node in program.nodes():
        highest = max(highest, *node_ipus(node), *_pipeline_ipus(node), 0)
    return 1 + highest


def _pipeline_ipus(node: node_def_pb2.NodeDef) -> list[int]:
    """Returns the IPUs of the pipeline that a node describes, none for any other node."""
    if PIPELINE_ATTRIBUTE not in node.attr:
        return []
    stages = json.loads(node.attr[PIPELINE_ATTRIBUTE].s).get("devices", ())
    return [
        ipu for stage in stages for ipu in (stage if isinstance(stage, (list, tuple)) else [stage])
    ]
