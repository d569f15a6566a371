"""Maps pipeline stages to IPUs as the user asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np
from tensorflow.python.framework import ops

from tensorflow_ipu.compiler.ir import node_sharding
from tensorflow_ipu.compiler.ir.node_sharding import ALL_IPUS

Stage = Callable[..., Any]
# One stage, or stages that run in parallel on IPUs of their own.
StageOrStages = Union[Stage, Sequence[Stage]]


def stage_list(computational_stages: Any) -> tuple[tuple[Stage, ...], ...]:
    """Returns the functions of each stage.

    Raises:
        TypeError: If it is no list or tuple, or has members that cannot be called.
        ValueError: If there are fewer than two stages.
    """
    if not isinstance(computational_stages, (list, tuple)):
        raise TypeError(
            "computational_stages must be a list or tuple of functions. Received: "
            f"{computational_stages!r}"
        )
    if len(computational_stages) < 2:
        raise ValueError(
            "Pipeline requires at least two computational stages. Received: "
            f"{len(computational_stages)}"
        )
    stages = []
    for index, stage in enumerate(computational_stages):
        members = tuple(stage) if isinstance(stage, (list, tuple)) else (stage,)
        if not members or not all(callable(member) for member in members):
            raise TypeError(
                "A computational stage must be a function or a list of functions that run in "
                f"parallel. Received for stage {index}: {stage!r}"
            )
        stages.append(members)
    return tuple(stages)


def stage_devices(
    device_mapping: Any, computational_stages: Sequence[Any], serialization: int
) -> tuple[tuple[int, ...], ...]:
    """Returns for each stage the IPU of each of its functions, or `ALL_IPUS`.

    Args:
        device_mapping: what the user passed, or None for one IPU after the other.
        computational_stages: what the user passed.
        serialization: Mini-batches in one execution of a stage.

    Raises:
        TypeError: If a mapping is no list, or an IPU no integer.
        ValueError: If the lengths differ, or there is no such IPU.
    """
    if device_mapping is None:
        return _default_devices(computational_stages, serialization)
    if not isinstance(device_mapping, (list, tuple)):
        raise TypeError(
            "device_mapping argument needs to be a list or a tuple. It has an IPU for each stage. "
            f"Received: {device_mapping!r}"
        )
    if len(device_mapping) != len(computational_stages):
        raise ValueError(
            f"Each stage must be mapped to an IPU: received {len(computational_stages)} "
            f"computational_stages and {len(device_mapping)} entries in device_mapping."
        )
    devices = []
    for index, (stage, device) in enumerate(zip(computational_stages, device_mapping)):
        parallel = isinstance(stage, (list, tuple))
        members = tuple(device) if isinstance(device, (list, tuple)) else (device,)
        if parallel != isinstance(device, (list, tuple)) or (
            parallel and len(members) != len(stage)
        ):
            raise ValueError(
                f"Each stage must be mapped to an IPU: entry {index} of device_mapping must have "
                f"the form of stage {index}, {'a list' if parallel else 'one function'}. "
                f"Received: {device!r}"
            )
        devices.append(tuple(_ipu(index, member) for member in members))
    return tuple(devices)


def _default_devices(
    computational_stages: Sequence[Any], serialization: int
) -> tuple[tuple[int, ...], ...]:
    """Returns IPU after IPU, or the first for all stages of a serialized pipeline."""
    devices = []
    following = 0
    for stage in computational_stages:
        size = len(stage) if isinstance(stage, (list, tuple)) else 1
        first = 0 if serialization > 1 else following
        devices.append(tuple(range(first, first + size)))
        following += size
    return tuple(devices)


def _ipu(stage: int, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"device_mapping must hold the index of an IPU for stage {stage}. Received: {value!r}"
        )
    if value < ALL_IPUS:
        raise ValueError(
            "Each stage must be mapped to an IPU: an index >= 0, or -1 for all IPUs of the "
            f"pipeline. Received for stage {stage}: {value}"
        )
    return int(value)


def resolved(devices: tuple[tuple[int, ...], ...], highest: int) -> tuple[tuple[int, ...], ...]:
    """Returns for each stage the IPUs that it is on.

    Args:
        devices: what `stage_devices` returned.
        highest: the highest IPU that ops of the stages name.
    """
    ipus = range(max(highest, *(ipu for members in devices for ipu in members), 0) + 1)
    return tuple(
        tuple(ipu for member in members for ipu in (ipus if member == ALL_IPUS else [member]))
        for members in devices
    )


def named_ipus(op: ops.Operation) -> tuple[int, ...]:
    """Returns the IPUs that a scope in a stage has put an op on; empty without one."""
    return node_sharding.node_ipus(op.node_def)


def share_ipus(devices: tuple[tuple[int, ...], ...]) -> bool:
    """Returns whether stages, or functions of a parallel stage, are on one IPU."""
    used = [ipu for members in devices for ipu in members]
    return len(set(used)) < len(used) or (ALL_IPUS in used and len(used) > 1)
