"""Drafts of a Workload's ops, filled in while the program is followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.records import OpRecord
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.workload import Op, Operand

BACKWARD = "backward"
UPDATE = "update"


@dataclasses.dataclass(eq=False)
class Draft:
    """An op of the Workload while the program is followed.

    Attributes:
        record: Its record in the listing.
        inputs: Its operands.
        caller: Position of the op that runs the function it is in.
        every: N, if one of N runs is executed: an update runs for the last mini-batch only.
        outputs: Its results.
        attributes: Its attributes.
        end: One past the last op of the functions it runs.
        exact: Whether all its shapes are known.
        known: Whether its results are known when the program is compiled, and take no memory.
        variables: Names of the variables that it works on itself.
        phase: Its phase of a training step.
        layer: Its layer.
        branch: Which branch of the innermost conditional around it it is in.
    """

    record: OpRecord
    inputs: tuple[Operand, ...]
    caller: int | None
    every: int = 1
    outputs: tuple[Operand, ...] = ()
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    end: int = 0
    exact: bool = True
    known: bool = False
    variables: tuple[str, ...] = ()
    phase: str = ""
    layer: str = ""
    branch: int = 0

    @property
    def calls(self) -> bool:
        """Whether it runs a function that may have been made elsewhere."""
        return op_names.is_call(self.record.type)

    def op(self) -> Op:
        """Returns the op of the Workload."""
        record = self.record
        loop = op_names.is_loop(record.type)
        exact = self.exact and record.runs is not None
        exact = exact and not (loop and record.trip_count is None)
        runs = 1 if record.runs is None else record.runs
        return Op(
            name=record.name,
            type=record.type,
            layer=self.layer,
            ipu=None if self.known else record.ipu,
            inputs=self.inputs,
            outputs=self.outputs,
            attributes=self.attributes,
            end=self.end,
            runs=runs // self.every,
            trip_count=record.trip_count,
            conditional=record.conditional and self.every == 1,
            stage=record.stage,
            phase=self.phase,
            source="" if record.source is None else str(record.source),
            flops=record.flops,
            label=Label.EXACT if exact else Label.ASSUMED,
            branch=self.branch,
        )
