"""Follows the tensors of a program through its functions, and describes its ops.

The rules for what is kept where:

* Arguments of functions are the tensors of the caller.
* What a loop carries along is one buffer, which the loop's results are in too. What the body
  returns for it is a buffer of its own. A loop that starts from something which has to stay as it
  is (a constant, a variable, an argument of the program, the start of another loop variable) has a
  new buffer, made by the loop's op.
* The result of a conditional is where its first branch makes it, or in a new buffer when that
  branch only passes something on. The results of other calls are where the function has them. What
  the ops inside make has no buffer in the op that runs the function: that op comes before them.
* For the results of other ops see `describe_results`.

Ops whose results are known when the program is compiled, and take no memory, run on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis.layers import LayerNames
from tensorflow_ipu.compiler.ir.call_tree import Call, CalledOp
from tensorflow_ipu.compiler.ir.records import OpRecord
from tensorflow_ipu.compiler.workload.attributes import attributes, constant_inputs
from tensorflow_ipu.compiler.workload.buffers import HANDLES, Buffers, Value, value_of
from tensorflow_ipu.compiler.workload.draft import UPDATE, Draft
from tensorflow_ipu.compiler.workload.results import compute
from tensorflow_ipu.planner.workload import TENSOR, Operand, Variable

# Ops whose axes are those of the result rather than those of the first input.
_RANK_OF_RESULT = ("Split", "Concat", "ExpandDims")


class Walk:
    """Describes a program op by op.

    Args:
        variables: the program's variables.
        handles: index of the variable that each `IpuProgramVariable` makes, by function and name.
        layers: is told which ops read which variables.
        batch: the batch size, None if it is not known.

    Attributes:
        buffers: Those found so far.
        drafts: What is known of the ops so far, in order.
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
        # The op that runs the function which is being described, and how many of its runs are one
        # run of that function.
        self._caller: int | None = None
        self._every = 1

    def variable(self, index: int) -> Value:
        """Returns the handle of a variable."""
        variable = self._variables[index]
        return Value(variable.dtype, variable.shape, self._kept[index], variable=index)

    def run(self, call: Call, arguments: Sequence[Value]) -> list[Value]:
        """Describes the ops of a function; returns what it returns."""
        known: dict[str, Value] = dict(zip(call.arguments, arguments))
        for op in call.ops:
            inputs = [known[name] for name in op.inputs if name in known]
            results = self._calling(op, inputs) if op.calls else self._plain(op, inputs)
            for index, result in enumerate(results):
                known[f"{op.record.name}:{index}"] = result
        return [known[name] for name in call.results]

    def _draft(self, op: CalledOp, inputs: list[Value]) -> Draft:
        """Starts the description of an op."""
        operands = tuple(value.operand for value in inputs)
        draft = Draft(op.record, operands, self._caller, self._every)
        self.drafts.append(draft)
        return draft

    def _plain(self, op: CalledOp, inputs: list[Value]) -> list[Value]:
        """Describes an op that runs no functions; returns its results."""
        record = op.record
        draft = self._draft(op, inputs)
        results = [value_of(tensor) for tensor in record.outputs]
        key = (record.function, record.name)
        if key in self._handles:
            results = [self.variable(self._handles[key])]
        else:
            draft.attributes = self._given(op, inputs, results)
            results = compute(op, inputs, results, draft.attributes, self.buffers, self._batch)
        for value in inputs:
            if value.buffer is not None:
                self.buffers.settle(value.buffer, record.ipu)
        draft.outputs = tuple(value.operand for value in results)
        draft.end = len(self.drafts)
        draft.exact = all([value.exact for value in (*inputs, *results)])
        draft.known = bool(results) and all(
            [value.fixed and value.buffer is None for value in results]
        )
        self._learn(draft, inputs)
        return results

    def _learn(self, draft: Draft, inputs: list[Value]) -> None:
        """Notes which variables an op works on: it belongs to their layer."""
        draft.variables = tuple(
            [self._variables[v.variable].name for v in inputs if v.variable is not None]
        )
        record = draft.record
        reads = record.type == op_names.READ and record.phase != UPDATE
        if draft.variables and reads and not op_names.is_backward(record.name):
            self._layers.learn(record.name, draft.variables[0], record.keras)

    def _calling(self, op: CalledOp, inputs: list[Value]) -> list[Value]:
        """Describes an op that runs functions, and these; returns the op's results."""
        record, outer = op.record, (self._caller, self._every)
        draft = self._draft(op, inputs)
        draft.attributes = self._attributes_of(op)
        before = len(self.buffers)
        self._caller = len(self.drafts) - 1
        results = [value_of(tensor) for tensor in record.outputs]
        own: set[int | None] = set()
        if op_names.is_loop(record.type):
            results = self._loop(op, inputs, results, own)
        elif op_names.is_conditional(record.type):
            results = self._conditional(op, inputs, results, own)
        else:
            results = self._call(op, inputs, results, own)
        self._caller, self._every = outer
        draft.outputs = tuple(_shown(value, before, own) for value in results)
        draft.end = len(self.drafts)
        draft.exact = all([value.exact for value in (*inputs, *results)])
        return results

    def _loop(
        self, op: CalledOp, inputs: list[Value], results: list[Value], own: set[int | None]
    ) -> list[Value]:
        """Describes a loop's condition and body. Buffers of the loop's op are added to `own`."""
        condition, body = op.calls
        carried = []
        taken: set[int | None] = set()
        for index, (value, result) in enumerate(zip(inputs, results)):
            if index not in body.invariant and result.dtype not in HANDLES:
                value = self._state(op.record, index, value, result, taken, own)
            carried.append(value)
        self.run(condition, carried)
        self.run(body, carried)
        return carried

    def _state(
        self,
        record: OpRecord,
        index: int,
        start: Value,
        result: Value,
        taken: set[int | None],
        own: set[int | None],
    ) -> Value:
        """Returns what a loop carries along: where it starts, if that may be overwritten."""
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
        own.add(state.buffer)
        return state

    def _conditional(
        self, op: CalledOp, inputs: list[Value], results: list[Value], own: set[int | None]
    ) -> list[Value]:
        """Describes all branches."""
        record = op.record
        before = len(self.buffers)
        if inputs and inputs[0].every and record.phase == UPDATE:
            self._every *= inputs[0].every
        branches = [self.run(call, inputs[1:]) for call in op.calls]
        joined = []
        for index, (result, *found) in enumerate(zip(results, *branches)):
            made_here = found[0].buffer is not None and found[0].buffer >= before
            places = {value.buffer for value in found}
            if made_here or len(places) == 1 or result.dtype in HANDLES:
                joined.append(_returned(result, found[0]))
                continue
            result.batched = found[0].batched
            result.buffer = self.buffers.tensor(f"{record.name}:{index}", result, record.ipu)
            own.add(result.buffer)
            joined.append(result)
        return joined

    def _call(
        self, op: CalledOp, inputs: list[Value], results: list[Value], own: set[int | None]
    ) -> list[Value]:
        """Describes the functions that any other op runs."""
        if len(op.calls) == 1 and len(op.calls[0].arguments) == len(inputs):
            returned = self.run(op.calls[0], inputs)
            return [_returned(*pair) for pair in zip(results, returned)]
        for call in op.calls:  # of an op that decides itself on what it passes
            self.run(call, [Value("float32", (), exact=False) for _ in call.arguments])
        results = compute(op, inputs, results, {}, self.buffers, self._batch)
        own.update(value.buffer for value in results)
        return results

    def _attributes_of(self, op: CalledOp) -> Mapping[str, Any]:
        """Attributes of an op's node, read once however often its function runs."""
        key = (op.record.function, op.record.name)
        if key not in self._attributes:
            self._attributes[key] = attributes(op.node)
        return self._attributes[key]

    def _given(self, op: CalledOp, inputs: list[Value], results: list[Value]) -> Mapping[str, Any]:
        """Attributes of an op, with what its constant inputs say."""
        own = self._attributes_of(op)
        operands = results if op.record.type.startswith(_RANK_OF_RESULT) else inputs
        rank = len(operands[0].shape) if operands else None
        found = constant_inputs(op.record.type, [value.constant for value in inputs], rank)
        return {**own, **found} if found else own


def _returned(result: Value, value: Value) -> Value:
    """Returns what a function returns, as the result of the op that runs it."""
    if value.variable is not None or value.exact or not result.exact:
        return value
    return Value(value.dtype, result.shape, value.buffer, True, value.fixed, batched=value.batched)


def _shown(value: Value, before: int, own: set[int | None]) -> Operand:
    """A result as an operand of the op that runs the function which made it."""
    made_inside = value.buffer is not None and value.buffer >= before and value.buffer not in own
    return Operand(value.dtype, value.shape, None if made_inside else value.buffer)
