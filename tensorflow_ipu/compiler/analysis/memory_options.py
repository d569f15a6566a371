"""Offloading options of gradient accumulation and pipelines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.ir.program import (
    ACCUMULATION_ATTRIBUTE,
    MEMORY_ATTRIBUTE,
    PIPELINE_ATTRIBUTE,
    Program,
)
from tensorflow_ipu.runtime.attachment import System

#: Options that move tensors to remote memory.
OFFLOADS = (
    "offload_weight_update_variables",
    "offload_activations",
    "offload_gradient_accumulation_buffers",
    "offload_weights",
)

Options = Mapping[str, "bool | None"]

# The names of the states in the configurations of saved optimizers.
_STATE_NAMES = {True: "THREESTATE_ON", False: "THREESTATE_OFF", None: "THREESTATE_UNDEFINED"}


class RemoteMemory(NamedTuple):
    """Whether a configuration allows remote memory, and for tensors of which size.

    Args:
        available: whether programs may use it.
        minimum_bytes: the least size of a variable that is put there.
    """

    available: bool
    minimum_bytes: int

    @classmethod
    def of(cls, attached: System) -> RemoteMemory:
        """Returns the remote memory of a configuration.

        Args:
            attached: the configuration.
        """
        minimum: int = attached.settings.optimizations.minimum_remote_tensor_size
        return cls(attached.remote_buffers, minimum)


def check_options(memory: Options) -> None:
    """Checks the memory options of a gradient accumulation or a pipeline for themselves.

    Args:
        memory: the options that there are, each None, True or False: `offload_...` for
            `weight_update_variables`, `activations`, `gradient_accumulation_buffers` and
            `weights`; `replicated_optimizer_state_sharding` and `replicated_weight_sharding`.

    Raises:
        TypeError: If a value is something else.
        ValueError: If optimizer state is to be split, but not offloaded.
        tf.errors.UnimplementedError: If weights are to be split, but not offloaded.
    """
    for name, value in memory.items():
        if not isinstance(value, (bool, type(None))):
            raise TypeError(f"{name} must be None, True or False. Received: {value!r}")
    sharded = memory.get("replicated_optimizer_state_sharding")
    if sharded and memory.get("offload_weight_update_variables") is False:
        raise ValueError(
            "The optimizer state must be offloaded for replicated_optimizer_state_sharding=True, "
            "which splits variables in remote memory, but offload_weight_update_variables=False "
            "keeps them out of it. Set both or neither."
        )
    if memory.get("replicated_weight_sharding") and memory.get("offload_weights") is False:
        raise weights_not_offloaded("offload_weights is False")


def state(name: str, value: bool | str | None) -> bool | None:
    """Returns the state that a user passes for an option.

    Args:
        name: name of the option.
        value: None, True or False, or the name of such a state: see `state_name`.

    Raises:
        TypeError: If it is something else.
    """
    for known, called in _STATE_NAMES.items():
        if value is known or value == called:
            return known
    raise TypeError(
        f"{name} must be None, True or False, or the name of one of these states: "
        f"{', '.join(_STATE_NAMES.values())}. Received: {value!r}"
    )


def state_name(value: bool | None) -> str:
    """Returns the name of a state in configurations of optimizers: THREESTATE_ON for True."""
    return _STATE_NAMES[value]


def weights_not_offloaded(why: str) -> errors.UnimplementedError:
    """Returns the error for weights that are split without being offloaded.

    Args:
        why: the reason why they are not offloaded.
    """
    return errors.UnimplementedError(
        None,
        None,
        "replicated_weight_sharding=True is implemented for weights in remote memory only, and "
        f"{why}. Set offload_weights=True too, or do not split the weights.",
    )


def of_update(node: node_def_pb2.NodeDef) -> Options | None:
    """Returns the memory options of the update that an op is part of, None when there are none."""
    if MEMORY_ATTRIBUTE not in node.attr:
        return None
    options: Options = json.loads(node.attr[MEMORY_ATTRIBUTE].s)
    return options


def descriptions(program: Program) -> list[dict[str, Any]]:
    """Returns the descriptions of gradient accumulations and pipelines."""
    return [
        json.loads(node.attr[attribute].s)
        for _, node in program.nodes()
        for attribute in (ACCUMULATION_ATTRIBUTE, PIPELINE_ATTRIBUTE)
        if attribute in node.attr
    ]


def of_pipeline(program: Program) -> Options:
    """Returns the memory options of the pipeline; `serialized` is whether it serializes batches."""
    for description in descriptions(program):
        if "description" in description:
            pipeline = json.loads(description["description"])
            serialized = pipeline.get("batch_serialization_iterations", 1) > 1
            return {**description["memory"], "serialized": serialized}
    return {}
