"""Check that updates have the types of their variables."""

from __future__ import annotations

from tensorflow.python.framework import dtypes, errors

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir import resource_uses
from tensorflow_ipu.compiler.ir.program import Program, node_tag
from tensorflow_ipu.compiler.ir.target import Target


def check(program: Program, target: Target) -> None:
    """Checks the types of optimizer updates.

    TensorFlow's kernels take the type of a variable for granted, and end the process when it is
    another. Its optimizers cannot make such an update, but a gradient accumulation can: `dtype` is
    the type of the gradient that the wrapped optimizer gets.

    Raises:
        tf.errors.InvalidArgumentError: Naming the op and the types.
    """
    for resource, node in resource_uses.find(program):
        if resource[0] != "argument" or not op_names.is_optimizer_update(node.op):
            continue
        variable = target.arguments[int(str(resource[1]))].dtype
        update = dtypes.as_dtype(node.attr["T"].type)
        if variable != update:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{node_tag(node.name)} ({node.op}) updates a variable of the type "
                f"{variable.name} with a gradient of the type {update.name}. Cast gradients to the "
                "type of the variable where they are applied: wrap the optimizer in an "
                "ipu.optimizers.IpuOptimizer of your own whose apply_gradients does so. Or "
                "accumulate in the variable's type: the argument `dtype` or "
                "`gradient_accumulation_dtype` decides on that.",
            )
