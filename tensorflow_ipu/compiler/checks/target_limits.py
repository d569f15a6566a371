"""Checks of a Program against its Target: types, remote memory, pre-compilation."""

from __future__ import annotations

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes, errors

from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.ir import dataflow
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program, node_tag
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names

_LACKING_TYPES = frozenset(
    {types_pb2.DT_DOUBLE, types_pb2.DT_COMPLEX64, types_pb2.DT_COMPLEX128, types_pb2.DT_STRING}
)


def check_pre_compilation(program: Program, target: Target) -> None:
    """Checks that a Program can be compiled for later, if the device is configured for that.

    Raises:
        tf.errors.FailedPreconditionError: If there is no cache to save it to, or a part of it runs
            on the host.
    """
    if not target.system.pre_compiles or target.to_file:
        return
    if not target.flags.executable_cache_path:
        raise errors.FailedPreconditionError(
            None,
            None,
            "The device is configured for pre-compilation, but there is no executable cache to "
            "save programs to. Set TF_POPLAR_FLAGS=--executable_cache_path=DIRECTORY.",
        )
    for function, node in program.nodes():
        if OUTSIDE_ATTRIBUTE in node.attr:
            raise errors.FailedPreconditionError(
                None,
                None,
                "The device is configured for pre-compilation, but "
                f"{node_tag(node.name, function.signature.name)} is in an outside compilation "
                "scope, which cannot be pre-compiled.",
            )


def check_arguments(program: Program, target: Target) -> None:
    """Checks that the device has the types of a Program's arguments.

    Raises:
        tf.errors.InvalidArgumentError: Naming the first argument of another type.
    """
    names = [argument.name for argument in program.functions[program.entry].signature.input_arg]
    for name, argument in zip(names, target.arguments):
        if argument.dtype.as_datatype_enum in _LACKING_TYPES:
            raise errors.InvalidArgumentError(
                None,
                None,
                "Detected unsupported operations when trying to compile graph: its argument "
                f"{name} is of the type {argument.dtype.name}, and there is no supported kernel "
                "for IPU devices for that. Cast it with tf.cast.",
            )


def check_remote_memory(program: Program, target: Target) -> None:
    """Checks the memory options of a Program against the configuration.

    Raises:
        tf.errors.FailedPreconditionError: If something has to be in remote memory, and there is
            none.
        tf.errors.UnimplementedError: If weights are to be split, and there is none.
    """
    if pipeline_plan.RemoteMemory.of(target.system).available:
        return
    for description in pipeline_plan.descriptions(program):
        memory = description["memory"]
        asked = next((name for name in pipeline_plan.OFFLOADS if memory.get(name)), None)
        if asked is not None:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"{description['name']} has {asked}=True, but the configured device does not "
                "support remote memory. Attach to a device (device_connection.type ALWAYS), state "
                "with device_connection.enable_remote_buffers that the system has it, or pass None "
                "to use it where there is some.",
            )
        if memory.get("replicated_weight_sharding"):
            raise pipeline_plan.weights_not_offloaded(
                "the configured device does not support remote memory"
            )


def check_update_types(program: Program, target: Target) -> None:
    """Checks the types of optimizer updates.

    TensorFlow's kernels take the type of a variable for granted, and end the process when it is
    another. Its optimizers cannot make such an update, but a gradient accumulation can: `dtype` is
    the type of the gradient that the wrapped optimizer gets.

    Raises:
        tf.errors.InvalidArgumentError: Naming the op and the types.
    """
    for resource, node in dataflow.resource_uses(program):
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
