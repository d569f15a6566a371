"""Data of a step: arrays of the user in, samples of the program out, with checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.common.enums import AnchorReturnTypeId, DataType
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.stepio import IStepIO
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.util.notices import warn_once

_KINDS = AnchorReturnTypeId


@dataclasses.dataclass(frozen=True)
class TransferPlan:
    """Sizes and types of the data of a step.

    Attributes:
        model: The model.
        flow: Batches and anchors.
        accumulation: Micro-batches of a batch.
        replicas: Number of replicas.
        infos: Shape and type of each tensor.
    """

    model: Model
    flow: DataFlow
    accumulation: int
    replicas: int
    infos: Mapping[str, TensorInfo]

    def samples_of(self, name: str) -> int:
        """Returns how many samples of an input a step takes.

        Args:
            name: the input.
        """
        count = self.flow.batchesPerStep() * self.accumulation
        return count if name in self.model.broadcast else count * self.replicas


def read(plan: TransferPlan, stepio: IStepIO) -> dict[str, np.ndarray]:
    """Returns the samples of each input, replica by replica in each micro-batch.

    Args:
        plan: sizes and types of the data of the step.
        stepio: where they are.

    Raises:
        popart_runtime_error: If they are missing, or of another type.
    """
    samples = {}
    for name, info in plan.model.used_inputs.items():
        array = stepio.read(name, plan.samples_of(name), tuple(info.shape()))
        array = _typed(name, array, info)
        if name in plan.model.broadcast:
            array = np.repeat(array, plan.replicas, 0)
        samples[name] = array
    return samples


def check_sizes(plan: TransferPlan, stepio: Any) -> None:
    """Refuses arrays of other sizes than a step needs; those for no input do not count.

    Args:
        plan: sizes and types of the data of the step.
        stepio: the arrays.

    Raises:
        popart_runtime_error: If there is one.
    """
    flow, micro = plan.flow, plan.accumulation
    said = (
        f"replication factor {plan.replicas}, accumulation factor {micro}, batches per step "
        f"{flow.batchesPerStep()}"
    )
    used = plan.model.used_inputs
    for name, array in stepio.inputs.items():
        if name in used:
            expected = used[name].nelms() * plan.samples_of(name)
            _check_size("input", name, expected, array.size, f"{said}, nelms {used[name].nelms()}")
        elif name in plan.model.inputs:
            warn_once(f"The input {name} does not appear in the optimized PopART Ir.")
    for name, array in stepio.outputs.items():
        if not flow.isAnchored(name):
            continue
        total = flow.batchesPerStep() * micro
        kind = flow.art(name)
        parts = {_KINDS.All: 1, _KINDS.EveryN: kind.id() is _KINDS.EveryN and kind.rp()}
        count = total // (parts.get(kind.id()) or total) * plan.replicas
        info = plan.infos.get(name)
        if info is not None:
            told = f"{said}, nelms {info.nelms()}, return type {kind.id().name}"
            _check_size("output", name, info.nelms() * count, array.size, told)


def _check_size(told: str, name: str, expected: int, received: int, said: str) -> None:
    if expected != received:
        raise popart_runtime_error(
            f"Unexpected number of {told} elements for Tensor {name}. Expected {expected}, but "
            f"received {received} ({said})."
        )


def _typed(name: str, array: np.ndarray, info: TensorInfo) -> np.ndarray:
    """Returns data of an input in its type: INT64 is narrowed to INT32."""
    given, wanted = datatypes.of_data(array).member, info.dataType()
    if given is wanted:
        return array
    if (given, wanted) == (DataType.INT64, DataType.INT32):
        warn_once(f"The data for tensor {name} is INT64, and is narrowed to INT32.")
        return array.astype(np.int32)
    raise popart_runtime_error(
        f"Type discrepancy for tensor {name}. User provided : {given.name} and expected : "
        f"{wanted.name}"
    )
