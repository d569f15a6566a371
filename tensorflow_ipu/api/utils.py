"""Legacy configuration, events and small utilities: the public module `ipu.utils`."""

from __future__ import annotations

import operator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.distribute import values as distributed_values

from tensorflow_ipu.api.config import (
    DeviceConnectionType,
    ExecutionProfileType,
    IPUConfig,
    KeyId,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
    VerificationOptions,
    configure_ipu_system,
    get_ipu_config,
)
from tensorflow_ipu.configs import flags
from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.configs.flags import running_on_ipu_model
from tensorflow_ipu.configs.legacy import (
    auto_select_ipus,
    create_ipu_config,
    select_ipus,
    set_compilation_options,
    set_convolution_options,
    set_experimental_multi_replica_distribution_options,
    set_floating_point_behaviour_options,
    set_gcl_options,
    set_io_tile_options,
    set_ipu_connection_type,
    set_ipu_model_options,
    set_matmul_options,
    set_norm_options,
    set_optimization_options,
    set_pooling_options,
    set_recomputation_options,
    set_report_options,
    set_serialization_options,
    set_transfer_options,
    set_verification_options,
)
from tensorflow_ipu.feeds.data_files import export_dataset_to_file, export_inputs_to_file
from tensorflow_ipu.runtime import native, system
from tensorflow_ipu.runtime.events import (
    extract_all_events,
    extract_all_strings_from_event_trace,
    extract_all_types_from_event_trace,
    extract_compile_reports,
    extract_execute_reports,
    extract_poplar_serialized_graphs,
)
from tensorflow_ipu.runtime.system import get_num_of_ipus_in_device

__all__ = [
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "KeyId",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
    "SyntheticDataCategory",
    "VerificationOptions",
    "auto_select_ipus",
    "configure_ipu_system",
    "create_ipu_config",
    "export_dataset_to_file",
    "export_inputs_to_file",
    "extract_all_events",
    "extract_all_strings_from_event_trace",
    "extract_all_types_from_event_trace",
    "extract_compile_reports",
    "extract_execute_reports",
    "extract_poplar_serialized_graphs",
    "get_ipu_config",
    "get_num_of_ipus_in_device",
    "move_variable_initialization_to_cpu",
    "reset_ipu_seed",
    "running_on_ipu_model",
    "select_ipus",
    "set_compilation_options",
    "set_convolution_options",
    "set_experimental_multi_replica_distribution_options",
    "set_floating_point_behaviour_options",
    "set_gcl_options",
    "set_io_tile_options",
    "set_ipu_connection_type",
    "set_ipu_model_options",
    "set_matmul_options",
    "set_norm_options",
    "set_optimization_options",
    "set_pooling_options",
    "set_recomputation_options",
    "set_report_options",
    "set_serialization_options",
    "set_transfer_options",
    "set_verification_options",
    "use_synthetic_data_for",
]


def use_synthetic_data_for(synthetic_data_category: SyntheticDataCategory) -> bool:
    """Returns whether data of a category is synthetic, as TF_POPLAR_FLAGS says.

    Args:
        synthetic_data_category: the category.

    Returns:
        True if data of this category does not move between host and device.

    Raises:
        TypeError: not a `SyntheticDataCategory`.
    """
    if not isinstance(synthetic_data_category, SyntheticDataCategory):
        raise TypeError(
            "Expected a SyntheticDataCategory, such as SyntheticDataCategory.Infeed. Received: "
            f"synthetic_data_category={synthetic_data_category!r}"
        )
    return flags.parsed().synthetic(synthetic_data_category)


def reset_ipu_seed(
    seed: int,
    device: str = "/device:IPU:0",
    cpu_device: str = "cpu",
    experimental_identical_replicas: bool = False,
) -> None:
    """Reseeds the random generator of a device, at once, in eager and in graph mode.

    With the same seed and the same executions after it, random results repeat.

    Args:
        seed: the new seed.
        device: the TensorFlow IPU device.
        cpu_device: the CPU device that is local to the IPUs. There is one host here.
        experimental_identical_replicas: whether all replicas draw the same numbers.

    Raises:
        TypeError: `seed` is not an integer.
        tf.errors.InvalidArgumentError: `device` is not the name of an IPU device.
        tf.errors.FailedPreconditionError: there is no such device.
    """
    del cpu_device
    ordinal = system.ordinal_of(device)
    system.device(ordinal)
    native.reset_seed(ordinal, operator.index(seed), bool(experimental_identical_replicas))


# --- Initial values of variables, moved from the IPU to the CPU in graph mode ---

_CPU = "/device:CPU:0"
_ANCHOR = "cpu"
_COLOCATION = "_class"
# Attributes that the IPU scopes put on ops to have them compiled.
_COMPILE_ATTRIBUTES = ("_XlaCompile", "_XlaScope", "_XlaSeparateCompiledGradients")


def move_variable_initialization_to_cpu(graph: tf.Graph | None = None) -> None:
    """Moves the ops that compute the initial values of variables to the CPU.

    To be called when all variables have been made and before the session is. Initial values are
    then computed by the host, so nothing is compiled for the IPU to initialise variables. Variables
    of a distribution strategy are left to it.

    Args:
        graph: the graph of the variables; the default graph if not given.

    Raises:
        ValueError: the graph has an op called "cpu" that other ops cannot be colocated with.
    """
    graph = tf.compat.v1.get_default_graph() if graph is None else graph
    anchor = _anchor(graph)
    for op in _initial_value_ops(graph):
        _move(op, anchor)


def _anchor(graph: tf.Graph) -> tf.Operation:
    """Returns the op on the CPU that the moved ops are colocated with, made at the first call."""
    try:
        existing = graph.get_operation_by_name(_ANCHOR)
    except KeyError:
        root = tf.name_scope("")
        with graph.as_default(), graph.control_dependencies(None), graph.device(_CPU), root:
            return tf.no_op(name=_ANCHOR)
    if existing.type != "NoOp" or not existing.device.upper().endswith("CPU:0"):
        raise ValueError(
            f"Expected no other op named {_ANCHOR!r} in the graph, since the ops that initialise "
            f"variables are colocated with one of that name. Received: {existing.type} on "
            f"{existing.device!r}. Rename it."
        )
    return existing


def _initial_value_ops(graph: tf.Graph) -> set[tf.Operation]:
    """Returns the ops that initial values are computed from, except those that use a resource."""
    pending = [
        variable.initializer.inputs[1].op
        for variable in graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        if not isinstance(variable, distributed_values.DistributedVariable)
    ]
    found: set[Any] = set()
    while pending:
        op = pending.pop()
        if op not in found and not any(t.dtype == tf.resource for t in op.inputs):
            found.add(op)
            pending += [tensor.op for tensor in op.inputs]
    return found


def _move(op: tf.Operation, anchor: tf.Operation) -> None:
    """Places an op on the CPU and takes it out of compilation."""
    op._set_device(_CPU)
    group = b"loc:@" + anchor.name.encode()
    op._set_attr(
        _COLOCATION, attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(s=[group]))
    )
    attributes = op.node_def.attr
    for name in _COMPILE_ATTRIBUTES:
        if name in attributes:
            op._clear_attr(name)
