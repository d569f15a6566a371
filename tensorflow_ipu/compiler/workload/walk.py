"""Description of a program's ops by abstract evaluation on tensors with buffers.

Rules of the buffers:

* Arguments of functions are the tensors of the caller.
* A loop variable is one buffer, which the loop's result is in too. The body's result for it is a
  buffer of its own. If the initial value has to be kept (a constant, a variable, an argument of the
  program, the start of another loop variable), the loop's op makes a new buffer.
* The result of a conditional is where its first branch makes it, or in a new buffer when that
  branch only passes something on. The results of other calls are where the function has them.
  Results of the ops inside have no buffer in the op that runs the function: that op comes before
  them.
* For the results of other ops see `results`.

A call may say that it is one op, such as a product of 8-bit floats: then its function is ignored.
Ops that only move values of variables between host and device are another launch, and left out. Ops
whose results are known when the program is compiled, and take no memory, run on the host.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.compiler.analysis.layer_names import LayerNames
from tensorflow_ipu.compiler.ir.dataflow import Dataflow
from tensorflow_ipu.compiler.ir.program import COMPOSITE_ATTRIBUTE, WEIGHTS_ATTRIBUTE
from tensorflow_ipu.compiler.ir.records import CalledOp, OpRecord
from tensorflow_ipu.compiler.passes import user_ops
from tensorflow_ipu.compiler.workload.attributes import attributes, constant_inputs
from tensorflow_ipu.compiler.workload.buffers import HANDLES, Buffers, Value, compute, value_of
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.workload import TENSOR, Op, Operand, Variable
from tensorflow_ipu.util import op_names

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


# --- Description of a program's ops by abstract evaluation on tensors with buffers ---

# Ops whose axes are the result's rather than the first input's.
_RANK_OF_RESULT = ("Split", "Concat", "ExpandDims")


@dataclasses.dataclass
class _Caller:
    """An op that runs functions, while these are described.

    Attributes:
        position: Its position among all ops.
        every: N, if N of its runs are one run of the functions.
        before: Number of buffers before it.
        own: Buffers that it makes itself, rather than the ops inside.
    """

    position: int | None
    every: int
    before: int
    own: set[int | None] = dataclasses.field(default_factory=set)

    def shown(self, value: Value) -> Operand:
        """Returns a result of a function as an operand of this op."""
        made_inside = value.buffer is not None and value.buffer >= self.before
        hidden = made_inside and value.buffer not in self.own
        return Operand(value.dtype, value.shape, None if hidden else value.buffer)


class WorkloadWalk(Dataflow[CalledOp, Value]):
    """Abstract evaluation that describes a program op by op.

    Args:
        variables: the program's variables.
        handles: index of the variable that each `IpuProgramVariable` makes, by function and name.
        layers: records which ops read which variables.
        batch: the batch size, None if it is not known.

    Attributes:
        buffers: Buffers found so far.
        drafts: Drafts of the ops so far, in order.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        handles: Mapping[tuple[str, str], int],
        layers: LayerNames,
        batch: int | None,
    ) -> None:
        self.buffers = Buffers()
        self.drafts: list[Draft] = []
        self._variables = variables
        self._handles = handles
        self._layers = layers
        self._batch = batch
        self._kept = [self.buffers.variable(*entry) for entry in enumerate(variables)]
        self._attributes: dict[tuple[str, str], Mapping[str, Any]] = {}
        # The op that runs the function being described; at first, none.
        self._caller = _Caller(None, 1, 0)

    def variable(self, index: int) -> Value:
        """Returns the handle of a variable."""
        variable = self._variables[index]
        return Value(variable.dtype, variable.shape, self._kept[index], variable=index)

    def visit(self, op: CalledOp, inputs: list[Value]) -> Sequence[Value]:
        """Describes an op, and the functions that it runs; returns its results."""
        if WEIGHTS_ATTRIBUTE in op.node.attr:
            return [value_of(tensor) for tensor in op.record.outputs]
        op = _as_one(op)
        outer = self._caller
        operands = tuple([value.operand for value in inputs])
        draft = Draft(op.record, operands, outer.position, outer.every)
        self.drafts.append(draft)
        results: Sequence[Value]
        if not op.calls:
            results = self.transfer(op, inputs, ())
            draft.outputs = tuple([value.operand for value in results])
        else:
            draft.attributes = self._attributes_of(op)
            caller = _Caller(len(self.drafts) - 1, outer.every, len(self.buffers))
            self._caller = caller
            results = super().visit(op, inputs)
            self._caller = outer
            draft.outputs = tuple([caller.shown(value) for value in results])
        draft.end = len(self.drafts)
        draft.exact = all([value.exact for value in (*inputs, *results)])
        return results

    def transfer(
        self, op: CalledOp, inputs: list[Value], inside: Sequence[list[Value]]
    ) -> list[Value]:
        """Returns the results of an op, with their places."""
        results = [value_of(tensor) for tensor in op.record.outputs]
        if not op.calls:
            return self._plain(op, inputs, results)
        results = compute(op, inputs, results, {}, self.buffers, self._batch)
        self._caller.own.update([value.buffer for value in results])
        return results

    def _plain(self, op: CalledOp, inputs: list[Value], results: list[Value]) -> list[Value]:
        """Describes an op that runs no functions; returns its results."""
        record, draft = op.record, self.drafts[-1]
        key = (record.function, record.name)
        if key in self._handles:
            results = [self.variable(self._handles[key])]
        else:
            draft.attributes = self._given(op, inputs, results)
            results = compute(op, inputs, results, draft.attributes, self.buffers, self._batch)
        for value in inputs:
            if value.buffer is not None:
                self.buffers.settle(value.buffer, record.ipu)
        draft.known = bool(results) and all(
            [value.fixed and value.buffer is None for value in results]
        )
        self._learn(draft, inputs)
        return results

    def _learn(self, draft: Draft, inputs: list[Value]) -> None:
        """Records the variables that an op works on: it belongs to their layer."""
        draft.variables = tuple(
            [self._variables[v.variable].name for v in inputs if v.variable is not None]
        )
        record = draft.record
        reads = record.type == op_names.READ and record.phase != UPDATE
        if draft.variables and reads and not op_names.is_backward(record.name):
            self._layers.learn(record.name, draft.variables[0], record.keras, record.layer)

    def unknown(self, op: CalledOp, inputs: list[Value], name: str) -> Value:
        """Returns a value with unknown type, shape and buffer."""
        return Value("float32", (), exact=False)

    def leave(self, op: CalledOp, values: list[Value]) -> list[Value]:
        """Returns the results of a call, where the function has them."""
        return [
            _returned(value_of(tensor), value) for tensor, value in zip(op.record.outputs, values)
        ]

    def merge(self, op: CalledOp, predicate: Value, branches: Iterator[list[Value]]) -> list[Value]:
        """Returns the results of a conditional: in the first branch's buffers, or in new ones."""
        record = op.record
        before = len(self.buffers)
        if predicate.every and record.phase == UPDATE:
            self._caller.every *= predicate.every
        joined = []
        for index, found in enumerate(zip(*branches)):
            result = value_of(record.outputs[index])
            made_here = found[0].buffer is not None and found[0].buffer >= before
            places = {value.buffer for value in found}
            if made_here or len(places) == 1 or result.dtype in HANDLES:
                joined.append(_returned(result, found[0]))
                continue
            result.batched = found[0].batched
            result.buffer = self.buffers.tensor(op.outputs[index], result, record.ipu)
            self._caller.own.add(result.buffer)
            joined.append(result)
        return joined

    def settle(self, op: CalledOp, start: list[Value]) -> list[Value]:
        """Returns the loop variables, whose buffers and shapes are the same in all iterations."""
        carried = []
        taken: set[int | None] = set()
        for index, (value, tensor) in enumerate(zip(start, op.record.outputs)):
            result = value_of(tensor)
            if index not in op.calls[1].invariant and result.dtype not in HANDLES:
                value = self._state(op.record, index, value, result, taken)
            carried.append(value)
        return carried

    def _state(
        self,
        record: OpRecord,
        index: int,
        start: Value,
        result: Value,
        taken: set[int | None],
    ) -> Value:
        """Returns a loop variable: in its initial value's buffer, or in a new one."""
        state = result if result.exact else start.kept_in(None)
        state.batched = start.batched
        place = start.buffer
        free = place is not None and self.buffers[place].kind == TENSOR and place not in taken
        if free and state.shape == start.shape:
            taken.add(place)
            return state.kept_in(place)
        if place is not None:  # it is copied from there
            self.buffers.settle(place, record.ipu)
        state.buffer = self.buffers.tensor(f"{record.name}:{index}", state, record.ipu)
        self._caller.own.add(state.buffer)
        return state

    def _attributes_of(self, op: CalledOp) -> Mapping[str, Any]:
        """Returns the attributes of an op's node, cached."""
        key = (op.record.function, op.record.name)
        if key not in self._attributes:
            self._attributes[key] = attributes(op.node)
        return self._attributes[key]

    def _given(self, op: CalledOp, inputs: list[Value], results: list[Value]) -> Mapping[str, Any]:
        """Returns the attributes of an op and its constant inputs by name."""
        own = self._attributes_of(op)
        operands = results if op.record.type.startswith(_RANK_OF_RESULT) else inputs
        rank = len(operands[0].shape) if operands else None
        found = constant_inputs(op.record.type, [value.constant for value in inputs], rank)
        if all(value.exact for value in inputs):
            takes = user_ops.takes(op.node, [value.shape for value in inputs])
            found = {**found, "takes": takes} if takes else found
        return {**own, **found} if found else own


def _as_one(op: CalledOp) -> CalledOp:
    """Returns a marked call as the one op that stands for its function."""
    if COMPOSITE_ATTRIBUTE not in op.node.attr:
        return op
    said = json.loads(op.node.attr[COMPOSITE_ATTRIBUTE].s)
    record = op.record._replace(type=said["type"], flops=said.get("flops"), flops_label="exact")
    return op._replace(record=record, calls=())


def _returned(result: Value, value: Value) -> Value:
    """Converts a result of a function to the result of the op that runs it."""
    if value.variable is not None or value.exact or not result.exact:
        return value
    return Value(value.dtype, result.shape, value.buffer, True, value.fixed, batched=value.batched)
