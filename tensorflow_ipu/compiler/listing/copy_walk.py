"""Follows the tensors of a program through its functions, from IPU to IPU.

The rules are those of `tensorflow_ipu.compiler.listing.copies`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.call_tree import Call, CalledOp
from tensorflow_ipu.compiler.ir.records import CopyRecord, OpRecord
from tensorflow_ipu.compiler.listing.copy_values import (
    Operand,
    Operands,
    Value,
    Variable,
    output,
    passed,
    returned,
    tensor_bytes,
)

# Ops whose results follow from the shapes of their inputs.
_OF_SHAPES = op_names.SHAPE_QUERIES | {"ZerosLike", "OnesLike"}
# A loop hardly needs more: each round settles the values that depend on those settled before.
_ROUNDS = 8


class Walk:
    """Runs a program abstractly, and notes copies.

    Attributes:
        copies: Those found so far.
    """

    def __init__(self) -> None:
        self.copies: list[CopyRecord] = []
        self._silent = 0

    def run(self, call: Call, arguments: Sequence[Operand]) -> Operands:
        """Runs a function once; returns what it returns."""
        known: dict[str, Operand] = dict(zip(call.arguments, arguments))
        # Variables that were read on an IPU other than their own, and not written since.
        fresh: set[tuple[Variable, int]] = set()
        for op in call.ops:
            inputs = [known[name] for name in op.inputs if name in known]
            for index, result in enumerate(self._outputs(op, inputs, fresh)):
                known[f"{op.record.name}:{index}"] = result
        return [known[name] for name in call.results]

    def _outputs(
        self, op: CalledOp, inputs: Operands, fresh: set[tuple[Variable, int]]
    ) -> Operands:
        """Runs an op; returns its results."""
        if op_names.is_loop(op.record.type):
            return self._loop(op, inputs)
        if op_names.is_conditional(op.record.type):
            return self._conditional(op, inputs)
        if len(op.calls) == 1 and len(op.calls[0].arguments) == len(inputs):
            return self._call(op, inputs)
        for call in op.calls:  # of an op that decides itself on what it passes
            self.run(call, [Value(name, None, list(op.record.ipus)) for name in call.arguments])
        return self._ordinary(op, inputs, fresh)

    def _ordinary(
        self, op: CalledOp, inputs: Operands, fresh: set[tuple[Variable, int]]
    ) -> Operands:
        """Runs an op that works with its inputs where it is itself."""
        record = op.record
        values = [operand for operand in inputs if isinstance(operand, Value)]
        variables = [operand for operand in inputs if isinstance(operand, Variable)]
        for value in values:
            for ipu in record.ipus:
                self._use(value, ipu, record)
        if len(variables) == len(record.outputs) == 1 and record.outputs[0].dtype == "resource":
            return [variables[0]]
        self._touch(record, values, variables, fresh)
        fixed = _is_fixed(op, inputs)
        return [output(record, index, fixed) for index in range(len(record.outputs))]

    def _use(self, value: Value, ipu: int, record: OpRecord) -> None:
        """Brings a value to an IPU, for an op."""
        if value.fixed or ipu in value.ipus:
            return
        if not value.ipus:
            value.arrive(ipu)
            return
        self._copy(value.name, value.ipus[0], ipu, value.size, record)
        value.ipus.append(ipu)

    def _touch(
        self,
        record: OpRecord,
        values: Sequence[Value],
        variables: Sequence[Variable],
        fresh: set[tuple[Variable, int]],
    ) -> None:
        """Reads and writes variables, for an op."""
        if not variables or not record.ipus:
            return
        read = _share(record.bytes_in, [value.size for value in values], len(variables))
        results = [tensor_bytes(tensor) for tensor in record.outputs]
        written = _share(record.bytes_out, results, len(variables))
        for variable in variables:
            if variable.home is None:
                variable.home = record.ipus[0]
            for ipu in record.ipus:
                if read == 0 or ipu == variable.home or (variable, ipu) in fresh:
                    continue
                self._copy(variable.name, variable.home, ipu, read, record)
                fresh.add((variable, ipu))
            if written != 0:
                fresh.difference_update({entry for entry in fresh if entry[0] is variable})
                if variable.home not in record.ipus:
                    self._copy(variable.name, record.ipus[0], variable.home, written, record)

    def _copy(
        self, name: str, source: int, destination: int, size: int | None, record: OpRecord
    ) -> None:
        """Notes a copy that an op needs."""
        if self._silent or size == 0:
            return
        exact = record.runs is not None and not record.conditional
        label = "" if size is None else "exact" if exact else "assumed"
        self.copies.append(
            CopyRecord(
                *(name, record.function, source, destination),
                *(size, record.runs, record.conditional, label),
            )
        )

    def _call(self, op: CalledOp, inputs: Operands) -> Operands:
        """Runs the function of a call."""
        call = op.calls[0]
        results = self.run(call, passed(inputs, call.arguments))
        return [returned(op.record, index, result) for index, result in enumerate(results)]

    def _conditional(self, op: CalledOp, inputs: Operands) -> Operands:
        """Runs all branches."""
        record = op.record
        for ipu in record.ipus:
            if isinstance(inputs[0], Value):
                self._use(inputs[0], ipu, record)
        joined: Operands = []
        for number, call in enumerate(op.calls):
            results = self.run(call, passed(inputs[1:], call.arguments))
            for index, result in enumerate(results):
                if number == 0:
                    joined.append(returned(record, index, result))
                    continue
                first = joined[index]
                if isinstance(first, Value) and isinstance(result, Value):
                    first.ipus = first.ipus or list(result.ipus)
                    taken = record._replace(function=call.function, conditional=True)
                    for ipu in first.ipus[:1]:
                        self._use(result, ipu, taken)
        for value in joined:
            if isinstance(value, Value):
                value.fixed = False
                value.ipus = value.ipus[:1] or list(record.ipus[:1])
        return joined

    def _loop(self, op: CalledOp, inputs: Operands) -> Operands:
        """Runs a loop's condition and body once, the loop's values where they settle."""
        condition, body = op.calls
        carried = self._settle(body, inputs)
        for before, value in zip(inputs, carried):
            if isinstance(before, Value) and isinstance(value, Value) and value.outer is None:
                for ipu in value.ipus:
                    self._use(before, ipu, op.record)
        self.run(condition, passed(carried, condition.arguments))
        inside = passed(carried, body.arguments)
        results = self.run(body, inside)
        last = _runs_of_body(op.record, body)
        for value, argument, result in zip(carried, inside, results):
            if isinstance(argument, Value) and isinstance(result, Value):
                changed = isinstance(value, Value) and value.outer is None
                for ipu in argument.ipus[:1] if changed else ():
                    self._use(result, ipu, last)
        return [returned(op.record, index, value) for index, value in enumerate(carried)]

    def _settle(self, body: Call, inputs: Operands) -> Operands:
        """Finds where the values of a loop are, by running its body until that stays the same.

        Returns:
            The values as arguments of the body. Those that the loop does not change have their
            `outer` value.
        """
        carried: Operands = []
        for index, (name, before) in enumerate(zip(body.arguments, inputs)):
            if isinstance(before, Variable):
                carried.append(before)
            elif index in body.invariant:
                carried.append(before.passed_as(name))
            else:
                carried.append(Value(name, before.size, before.ipus[:1]))
        self._silent += 1
        for _ in range(_ROUNDS):
            inside = passed(carried, body.arguments)
            results = self.run(body, inside)
            if not any([_moves(*pair, inside) for pair in zip(carried, results)]):
                break
        self._silent -= 1
        return carried


def _moves(value: Operand, result: Operand, arguments: Operands) -> bool:
    """Puts a loop's value where the body makes it; returns whether it was elsewhere."""
    if isinstance(value, Variable) or isinstance(result, Variable) or value.outer is not None:
        return False
    if any(result is argument for argument in arguments) or result.fixed:
        return False
    home = result.ipus[:1]
    if home == value.ipus:
        return False
    value.ipus = home
    return True


def _runs_of_body(record: OpRecord, body: Call) -> OpRecord:
    """A loop's op as if it was at the end of the loop's body."""
    known = record.runs is not None and record.trip_count is not None
    runs = (record.runs or 0) * (record.trip_count or 0) if known else None
    return record._replace(function=body.function, runs=runs)


def _is_fixed(op: CalledOp, inputs: Operands) -> bool:
    """Whether the results of an op are known when the program is compiled."""
    if op.record.type == "Const":
        return True
    if op.stateful or op.calls or not inputs:
        return False
    if op.record.type in _OF_SHAPES:
        return all(isinstance(operand, Value) and operand.size is not None for operand in inputs)
    return all(isinstance(operand, Value) and operand.fixed for operand in inputs)


def _share(total: int | None, others: Sequence[int | None], count: int) -> int | None:
    """Bytes of each of `count` variables, from those of an op's variables and other operands."""
    if total is None or any(size is None for size in others):
        return None
    return (total - sum(size or 0 for size in others)) // count
