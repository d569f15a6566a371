"""Pass: replaces the number of replicas, and values that follow from it, by constants."""

from __future__ import annotations

import numpy as np
from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.python.framework import tensor_util

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names

_GROUP_SIZE, _MEAN = "replica_group_size", "mean"


def run(program: Program, target: Target) -> None:
    """Makes the number of replicas a constant, and sums and means over one replica identities.

    TensorFlow's graph optimizers then drop the division of a mean over one replica.

    Before: any legal Program. After: no op asks for the number of replicas. With one replica there
    are no sums and means over replicas, but for those with a wrong group size, which are refused
    later.
    """
    for _, node in program.nodes():
        if node.op == op_names.REPLICA_COUNT:
            _make_constant(node, target.replicas)
        elif (
            node.op == op_names.CROSS_REPLICA_SUM
            and target.replicas == 1
            and node.attr[_GROUP_SIZE].i <= 1
        ):
            node.op = "Identity"
            del node.attr[_GROUP_SIZE]
            del node.attr[_MEAN]


def _make_constant(node: node_def_pb2.NodeDef, value: int) -> None:
    node.op = "Const"
    node.attr["dtype"].type = types_pb2.DT_INT32
    node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(np.int32(value)))
