"""Passes that specialize a Program to its Target: replicas, types and shapes of arguments."""

from __future__ import annotations

import numpy as np
from tensorflow.core.framework import attr_value_pb2, node_def_pb2, types_pb2
from tensorflow.python.framework import tensor_util

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names

_GROUP_SIZE, _MEAN = "replica_group_size", "mean"


def fix_replicas(program: Program, target: Target) -> None:
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


# Attributes of arguments that TensorFlow reads: the shape of a tensor; type and shape of the value
# of a variable.
_SHAPE = "_output_shapes"
_VALUE_TYPE = "_handle_dtypes"
_VALUE_SHAPE = "_handle_shapes"


def annotate_arguments(program: Program, target: Target) -> None:
    """Annotates the entry's arguments with shapes of tensors, and types and shapes of variables.

    TensorFlow does so for functions that it runs itself. Its optimizers then find ops without an
    effect, such as a momentum of 0, and simplify a program like the function that it was made of.

    Before: any legal Program. After: the entry's arguments have attributes that say the same as
    the target.
    """
    entry = program.functions[program.entry]
    for index, argument in enumerate(target.arguments):
        attributes = entry.arg_attr[index].attr
        shapes = attr_value_pb2.AttrValue()
        shapes.list.shape.append(argument.shape.as_proto())
        if argument.is_variable:
            types = attr_value_pb2.AttrValue()
            types.list.type.append(argument.dtype.as_datatype_enum)
            attributes[_VALUE_TYPE].CopyFrom(types)
            attributes[_VALUE_SHAPE].CopyFrom(shapes)
        else:
            attributes[_SHAPE].CopyFrom(shapes)
