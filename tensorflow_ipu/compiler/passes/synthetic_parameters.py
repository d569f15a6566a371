"""Pass: replaces the values of variables by synthetic ones."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2, types_pb2
from tensorflow.python.framework import tensor_util

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler import synthetic_data
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.configs.enums import SyntheticDataCategory


def run(program: Program, target: Target) -> None:
    """Replaces the user's variables by variables of the program with synthetic values.

    Applies where TF_POPLAR_FLAGS says that parameters do not move, and has an initializer for them
    (`--synthetic_data_initializer`). Without an initializer their contents would be undefined; then
    they keep the values of the host.

    Before: any legal Program. After: no node uses a variable of the user. Values that the program
    writes to its own variables are lost at the end of the run.
    """
    initializer = target.flags.synthetic_data_initializer
    if not initializer or not target.flags.synthetic(SyntheticDataCategory.Parameters):
        return
    entry = program.functions[program.entry]
    names = [argument.name for argument in entry.signature.input_arg]
    for name, argument in zip(names, target.arguments):
        if argument.is_variable:
            _replace(entry, name, argument, initializer)


def _replace(
    function: function_pb2.FunctionDef, name: str, argument: Argument, initializer: str
) -> None:
    """Replaces an argument of a function by a variable of the program."""
    own = _add_variable(function, f"{name}/synthetic", argument, initializer)
    for node in function.node_def:
        for index, reference in enumerate(node.input):
            if reference == name:
                node.input[index] = own
    for result, reference in function.ret.items():
        if reference == name:
            function.ret[result] = own


def _add_variable(
    function: function_pb2.FunctionDef, name: str, argument: Argument, initializer: str
) -> str:
    """Adds a variable with its made-up value, and returns its handle."""
    dtype = argument.dtype.as_datatype_enum
    variable = function.node_def.add(name=name, op=op_names.PROGRAM_VARIABLE)
    variable.attr["dtype"].type = dtype
    variable.attr["shape"].shape.CopyFrom(argument.shape.as_proto())
    value = function.node_def.add(name=f"{name}/value", op="Const")
    value.attr["dtype"].type = dtype
    shape = tuple(argument.shape.as_list())
    array = synthetic_data.values(argument.dtype, shape, initializer)
    value.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(array, argument.dtype))
    handle = f"{name}:handle:0"
    assign = function.node_def.add(
        name=f"{name}/assign", op=op_names.ASSIGN, input=[handle, f"{value.name}:output:0"]
    )
    assign.attr["dtype"].type = dtype
    filled = function.node_def.add(
        name=f"{name}/filled", op="Identity", input=[handle, f"^{assign.name}"]
    )
    filled.attr["T"].type = types_pb2.DT_RESOURCE
    return f"{filled.name}:output:0"
