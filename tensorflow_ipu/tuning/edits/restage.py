"""Move of a Workload's layers to pipeline stages or shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.program.structure import FORWARD, UPDATE, Structure, variables_of
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.workload import TENSOR, Buffer, Copy, Op, Workload
from tensorflow_ipu.tuning.edits import workload_edits


def homes(workload: Workload, found: Structure) -> dict[int, int]:
    """Returns the layer that keeps each variable: the first in the program to use it.

    Args:
        workload: the program.
        found: section and layer of its ops.
    """
    kept: dict[int, int] = {}
    for index, op in enumerate(workload.ops):
        if found.layer_of[index] >= 0 and op.end == index + 1:
            for variable in variables_of(workload, op):
                kept.setdefault(variable, found.layer_of[index])
    return kept


class Crossing(NamedTuple):
    """A tensor that several layers have.

    Args:
        maker: the layer that makes it.
        users: the other layers that use it.
        num_bytes: its size.
        phase: of the op that makes it.
    """

    maker: int
    users: frozenset[int]
    num_bytes: int
    phase: str


def crossings(workload: Workload, found: Structure) -> tuple[Crossing, ...]:
    """Returns the tensors that go from layer to layer for one mini-batch.

    Args:
        workload: the program.
        found: section and layer of its ops.
    """
    phases = _phases(workload, found)
    return tuple(
        Crossing(maker, frozenset(users - {maker}), workload.buffers[index].num_bytes, phase)
        for index, (maker, users) in _users(workload, found).items()
        if users - {maker}
        for phase in (phases[index],)
    )


def restaged(
    workload: Workload,
    found: Structure,
    stage_of_layer: Sequence[int],
    description: PipelineDescription | None,
) -> Workload:
    """Returns the program with its layers on other IPUs.

    Args:
        workload: the program.
        found: section and layer of its ops.
        stage_of_layer: stage of each layer, from 0; stage `i` is on IPU `i`.
        description: the pipeline; None to shard the program without one.

    Returns:
        The program. A pipeline gets sums of gradients where it had none, and makes one update for
        all mini-batches of an execution.
    """
    place = _Places(workload, found, stage_of_layer)
    moved = dataclasses.replace(
        workload,
        ops=place.ops(description),
        buffers=place.buffers(),
        variables=tuple(
            v._replace(ipu=place.variable(i)) for i, v in enumerate(workload.variables)
        ),
        copies=place.copies(description),
        ipus=max(stage_of_layer) + 1,
        pipeline=description,
        stage_names=() if description is None else place.names(),
    )
    if description is None or not description.training or found.accumulated:
        return moved
    return workload_edits.accumulating(moved)


class _Places:
    """The IPU and stage of each op, buffer and variable of a restaged program."""

    def __init__(self, workload: Workload, found: Structure, stage_of_layer: Sequence[int]) -> None:
        self._workload = workload
        self._found = found
        self._stages = tuple(stage_of_layer)
        self._homes = homes(workload, found)

    def variable(self, index: int) -> int:
        """Returns the IPU of a variable."""
        return self._stages[self._homes[index]] if index in self._homes else 0

    def names(self) -> tuple[str, ...]:
        """Returns a name for each stage: its first and its last layer."""
        parts: dict[int, list[str]] = {}
        for name, stage in zip(self._found.layers, self._stages):
            parts.setdefault(stage, []).append(name)
        return tuple(
            part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts.values()
        )

    def ops(self, description: PipelineDescription | None) -> tuple[Op, ...]:
        """Returns the ops with their IPU and, in a pipeline, stage, phase and runs."""
        return tuple(
            self._op(op, section, layer, description)
            for op, section, layer in zip(
                self._workload.ops, self._found.sections, self._found.layer_of
            )
        )

    def _op(self, op: Op, section: str, layer: int, description: PipelineDescription | None) -> Op:
        if layer < 0:
            return op
        stage = self._stages[layer]
        ipu = stage if op.ipu is not None else None
        if description is None:
            return dataclasses.replace(op, ipu=ipu)
        updates = description.repeat_count
        batches = description.mini_batches * updates
        return dataclasses.replace(
            op,
            ipu=ipu,
            stage=stage,
            phase="" if section == FORWARD else section,
            runs=self._found.runs(op.runs, section, batches, updates),
        )

    def buffers(self) -> tuple[Buffer, ...]:
        """Returns the buffers on the IPU of the op that makes them, variables on theirs."""
        made = {buffer: maker for buffer, (maker, _) in self._makers().items()}
        return tuple(
            buffer._replace(ipu=self._ipu(index, buffer, made))
            for index, buffer in enumerate(self._workload.buffers)
        )

    def _ipu(self, index: int, buffer: Buffer, made: Mapping[int, int]) -> int | None:
        if buffer.ipu is None:
            return None
        if buffer.variable is not None:
            return self.variable(buffer.variable)
        return self._stages[made[index]] if index in made else buffer.ipu

    def _makers(self) -> dict[int, tuple[int, set[int]]]:
        return _users(self._workload, self._found)

    def copies(self, description: PipelineDescription | None) -> tuple[Copy, ...]:
        """Returns the tensors that go from stage to stage, and from IPU to IPU."""
        runs = self._found.mini_batches
        if description is not None:
            runs = description.mini_batches * description.repeat_count
        phases = _phases(self._workload, self._found)
        copied = []
        for index, (maker, users) in self._makers().items():
            buffer = self._workload.buffers[index]
            source = self._stages[maker]
            for target in sorted({self._stages[user] for user in users} - {source}):
                stage = None if description is None else source
                copied.append(
                    Copy(buffer.name, source, target, buffer.num_bytes, runs, stage,
                         phases[index] if description is not None else "", Label.MODELLED)
                )  # fmt: skip
        return tuple(copied)


def _users(workload: Workload, found: Structure) -> dict[int, tuple[int, set[int]]]:
    """Returns the producing layer and the using layers of each tensor of the mini-batch loop.

    Scalars and results of the weight update are left out: their copies cost a negligible time.
    """
    known: dict[int, tuple[int, set[int]]] = {}
    for op, section, layer in zip(workload.ops, found.sections, found.layer_of):
        if layer < 0 or section == UPDATE:
            continue
        for operand in op.inputs:
            if operand.buffer in known:
                known[operand.buffer][1].add(layer)
        for operand in op.outputs:
            buffer = operand.buffer
            if buffer is not None and workload.buffers[buffer].kind == TENSOR:
                known.setdefault(buffer, (layer, set()))
    return known


def _phases(workload: Workload, found: Structure) -> dict[int, str]:
    """Returns the phase of the first op that has each buffer as a result."""
    phases: dict[int, str] = {}
    for op, section in zip(workload.ops, found.sections):
        for operand in op.outputs:
            if operand.buffer is not None:
                phases.setdefault(operand.buffer, "" if section == FORWARD else section)
    return phases
