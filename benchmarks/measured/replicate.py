"""Encoder layers that are alike: a program with one of each stage stands for all of them.

Tracing and compiling 24 layers takes half a minute, and they are all the same, so programs are
compiled with one layer per pipeline stage. Here its ops are repeated, each time with variables and
tensors of their own. Only the time of the result is meant: tensors between layers are shared.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from tensorflow_ipu.planner.workload import TENSOR, VARIABLE, Op, Operand, Workload

_LAYER = re.compile(r"(?:^|/|_)layer_(\d+)(?=/|$)")
_UPDATE = "update"


def replicated(workload: Workload, times: Mapping[int, int]) -> Workload:
    """Returns a program in which layers are repeated.

    Args:
        workload: the program, with ops of the scopes `layer_0`, `layer_1` and so on.
        times: how often each of these layers is to be there.
    """
    layers = _layers(workload)
    copies = _Copies(workload, layers, times)
    start = []
    ops: list[Op] = []
    for index, op in enumerate(workload.ops):
        start.append(len(ops))
        repeat = times.get(layers[index], 1) if op.end == index + 1 else 1
        ops += [copies.of(op, number) for number in range(repeat)]
    start.append(len(ops))
    ends = {
        position: start[op.end] if op.end > index + 1 else position + 1
        for index, op in enumerate(workload.ops)
        for position in range(start[index], start[index + 1])
    }
    return dataclasses.replace(
        workload,
        ops=tuple(dataclasses.replace(op, end=ends[i]) for i, op in enumerate(ops)),
        buffers=tuple(copies.buffers),
        variables=tuple(copies.variables),
    )


class _Copies:
    """The variables and inner tensors of repeated layers, as often as the layers."""

    def __init__(self, workload: Workload, layers: Sequence[int], times: Mapping[int, int]) -> None:
        self.buffers, self.variables = list(workload.buffers), list(workload.variables)
        # Of each repeated buffer, those of its copies.
        self._found: dict[int, list[int]] = {}
        for index, layer in sorted(_of_one_layer(workload, layers).items()):
            variable = workload.buffers[index].variable
            self._found[index] = [index]
            for number in range(1, times.get(layer, 1)):
                self._found[index].append(self._copy(index, variable, number))

    def of(self, op: Op, number: int) -> Op:
        """Returns the op of a copy, from 0, with that copy's variables and tensors."""
        if not number:
            return op
        inputs, outputs = (self._moved(o, number) for o in (op.inputs, op.outputs))
        return dataclasses.replace(op, inputs=inputs, outputs=outputs)

    def _copy(self, index: int, variable: int | None, number: int) -> int:
        buffer = self.buffers[index]
        copied = None if variable is None else len(self.variables)
        self.buffers.append(buffer._replace(name=f"{buffer.name}_copy_{number}", variable=copied))
        if variable is not None:
            kept = self.variables[variable]
            self.variables.append(kept._replace(name=f"{kept.name}_copy_{number}"))
        return len(self.buffers) - 1

    def _moved(self, operands: Sequence[Operand], number: int) -> tuple[Operand, ...]:
        return tuple(
            operand._replace(buffer=self._found[operand.buffer][number])
            if operand.buffer in self._found
            else operand
            for operand in operands
        )


def _of_one_layer(workload: Workload, layers: Sequence[int]) -> dict[int, int]:
    """The layer of each variable or tensor that ops of only one layer use, besides of none."""
    found: dict[int, set[int]] = {}
    for number, (op, layer) in enumerate(zip(workload.ops, layers)):
        for operand in (*op.inputs, *op.outputs) if op.end == number + 1 and layer >= 0 else ():
            index = operand.buffer
            if index is None:
                continue
            if workload.buffers[index].kind in (TENSOR, VARIABLE):
                found.setdefault(index, set()).add(layer)
    return {index: of.pop() for index, of in found.items() if len(of) == 1}


def _layers(workload: Workload) -> list[int]:
    """The layer of each op, -1 if it has none.

    Ops of the weight update are named after the optimizer: they belong to the layer whose variable
    or gradient they read.
    """
    of_buffer = {
        index: layer_of(workload.variables[buffer.variable].name)
        for index, buffer in enumerate(workload.buffers)
        if buffer.variable is not None
    }
    found = []
    for op in workload.ops:
        layer = layer_of(f"{op.layer}/{op.name}")
        if layer < 0 and op.phase == _UPDATE:
            layer = max((of_buffer.get(x.buffer or 0, -1) for x in op.inputs), default=-1)
            for output in op.outputs:
                if output.buffer is not None and output.buffer not in of_buffer:
                    of_buffer[output.buffer] = layer
        found.append(layer)
    return found


def layer_of(name: str) -> int:
    """Returns the number of the layer that a name is of; -1 if it has none.

    Args:
        name: of a variable, or of an op with its scopes.
    """
    match = _LAYER.search(name)
    return int(match[1]) if match else -1


def with_count(workload: Workload, count: int) -> Workload:
    """Returns a pipeline with another number of mini-batches in an execution.

    Args:
        workload: a program that is one execution of a pipeline.
        count: mini-batches.

    Raises:
        ValueError: it has no pipeline.
    """
    pipeline = workload.pipeline
    if pipeline is None:
        raise ValueError(f"Expected a pipeline; received the program {workload.name} without one.")
    old = pipeline.count
    # The condition of the loop runs once more than its body.
    runs = {old: count, old + 1: count + 1}
    return dataclasses.replace(
        workload,
        ops=tuple(
            dataclasses.replace(
                op,
                runs=runs.get(op.runs, op.runs),
                trip_count=runs.get(op.trip_count or 0, op.trip_count),
            )
            for op in workload.ops
        ),
        copies=tuple(
            copy._replace(runs=runs.get(copy.runs, copy.runs)) for copy in workload.copies
        ),
        pipeline=dataclasses.replace(pipeline, count=count),
    )


def with_replicas(workload: Workload, replicas: int) -> Workload:
    """Returns a program whose split variables are split over another number of replicas.

    Args:
        workload: the program.
        replicas: how many there are.
    """
    return dataclasses.replace(
        workload,
        variables=tuple(
            variable._replace(split=replicas) if variable.split > 1 else variable
            for variable in workload.variables
        ),
    )
