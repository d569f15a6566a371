"""Pass: annotates a program's arguments with types and shapes for TensorFlow's optimizers."""

from __future__ import annotations

from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target

# Attributes of arguments that TensorFlow reads: the shape of a tensor; type and shape of the value
# of a variable.
_SHAPE = "_output_shapes"
_VALUE_TYPE = "_handle_dtypes"
_VALUE_SHAPE = "_handle_shapes"


def run(program: Program, target: Target) -> None:
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
