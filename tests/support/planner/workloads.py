"""Workloads made by hand and at random, for tests of everything that is planned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule
from tensorflow_ipu.planner.workload import (
    CONSTANT,
    INPUT,
    TENSOR,
    VARIABLE,
    Buffer,
    Op,
    Operand,
    Variable,
    Workload,
)
from tensorflow_ipu.util import op_names


class Builder:
    """Makes a Workload op by op.

    Args:
        ipus: of a replica.
    """

    def __init__(self, ipus: int = 1) -> None:
        self._ipus = ipus
        self._ops: list[Op | None] = []
        self._buffers: list[Buffer] = []
        self._variables: list[Variable] = []

    def variable(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        role: str = "weight",
        ipu: int = 0,
        **placement: Any,
    ) -> int:
        """Adds a variable; returns its buffer."""
        self._variables.append(Variable(name, dtype, tuple(shape), role, ipu, **placement))
        index = len(self._variables) - 1
        return self.buffer(name, shape, dtype, VARIABLE, ipu, variable=index)

    def constant(self, name: str, shape: Sequence[int], ipu: int = 0) -> int:
        """Adds a constant; returns its buffer."""
        return self.buffer(name, shape, "float32", CONSTANT, ipu)

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32", ipu: int = 0) -> int:
        """Adds an argument of the program; returns its buffer."""
        return self.buffer(name, shape, dtype, INPUT, ipu)

    def buffer(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        kind: str = TENSOR,
        ipu: int | None = 0,
        **rest: Any,
    ) -> int:
        """Adds a buffer; returns its index."""
        self._buffers.append(Buffer(name, dtype, tuple(shape), kind, ipu, **rest))
        return len(self._buffers) - 1

    def op(
        self,
        op_type: str,
        inputs: Sequence[int] = (),
        shape: Sequence[int] | None = None,
        dtype: str = "float32",
        *,
        name: str | None = None,
        ipu: int | None = 0,
        alias: int | None = None,
        more: Sequence[int] = (),
        attributes: dict[str, Any] | None = None,
        **rest: Any,
    ) -> int:
        """Adds an op with one result, or none if neither `shape` nor `alias` is given.

        The buffers in `more` are results besides. Its phase follows from its name and type.

        Returns:
            The buffer of the result; that of the op's first input without one, -1 without either.
        """
        name = name or f"{op_type}_{len(self._ops)}"
        outputs: list[int] = []
        if alias is not None:
            outputs = [alias]
        elif shape is not None:
            outputs = [self.buffer(name, shape, dtype, TENSOR, ipu)]
        outputs += more
        if op_names.is_backward(name):
            rest.setdefault("phase", "backward")
        elif op_names.is_optimizer_update(op_type):
            rest.setdefault("phase", "update")
        self._ops.append(
            Op(
                name,
                op_type,
                "",
                ipu,
                tuple(self._operand(b) for b in inputs),
                tuple(self._operand(b) for b in outputs),
                attributes or {},
                len(self._ops) + 1,
                source=rest.pop("source", f"model.py:{len(self._ops) + 1} (step)"),
                **rest,
            )
        )
        return outputs[0] if outputs else (inputs[0] if inputs else -1)

    def begin(self, op_type: str, inputs: Sequence[int] = (), **rest: Any) -> int:
        """Adds an op that runs the ops up to `end`; returns its index."""
        self.op(op_type, inputs, **rest)
        return len(self._ops) - 1

    def end(self, index: int) -> None:
        """Ends the functions of an op."""
        op = self._ops[index]
        self._ops[index] = dataclasses.replace(op, end=len(self._ops))

    def workload(self, **rest: Any) -> Workload:
        """Returns the program."""
        return Workload(
            "test", tuple(self._ops), tuple(self._buffers), tuple(self._variables), (),
            self._ipus, **rest,
        )  # fmt: skip

    def _operand(self, index: int) -> Operand:
        buffer = self._buffers[index]
        return Operand(buffer.dtype, buffer.shape, index)


def chain(elements: int = 1 << 20) -> Workload:
    """Three ops in a row on an argument, none of them in place: sizes 1, 2, 4 and 1 times."""
    make = Builder()
    x = make.input("x", (elements,))
    a = make.op("Tile", [x], (2 * elements,), name="a")
    b = make.op("Tile", [a], (4 * elements,), name="b")
    make.op("Slice", [b], (elements,), name="c")
    return make.workload()


def training_step(width: int = 256, batch: int = 64, layers: int = 3) -> Workload:
    """A dense network with momentum, one step: forward, backward, updates at the end."""
    make = Builder()
    x = make.input("x", (batch, width))
    weights = [make.variable(f"w{i}", (width, width)) for i in range(layers)]
    momenta = [
        make.variable(f"w{i}/momentum", (width, width), role="optimizer state")
        for i in range(layers)
    ]
    kept, value = [], x
    for i in range(layers):
        product = make.op("MatMul", [value, weights[i]], (batch, width), name=f"dense{i}/MatMul")
        activation = make.op("Relu", [product], (batch, width), name=f"dense{i}/Relu")
        kept.append((value, activation))
        value = activation
    gradient = make.op("Sub", [value, x], (batch, width), name="gradients/loss/sub")
    updates = []
    for i in reversed(range(layers)):
        before, activation = kept[i]
        scope = f"gradients/dense{i}"
        gradient = make.op(
            "ReluGrad", [gradient, activation], (batch, width), name=f"{scope}/ReluGrad"
        )
        of_weight = make.op(
            "MatMul", [before, gradient], (width, width), name=f"{scope}/MatMul_1",
            attributes={"transpose_a": True},
        )  # fmt: skip
        updates.append((i, of_weight))
        if i:
            gradient = make.op(
                "MatMul", [gradient, weights[i]], (batch, width), name=f"{scope}/MatMul",
                attributes={"transpose_b": True},
            )  # fmt: skip
    for i, of_weight in updates:
        make.op("ResourceApplyMomentum", [weights[i], momenta[i], of_weight], name=f"update{i}")
    return make.workload(batch=batch)


def loop(elements: int = 1 << 16, trips: int = 10) -> Workload:
    """Returns a loop that adds an outer tensor to its carried tensor, through a temporary."""
    make = Builder()
    x = make.input("x", (elements,))
    outside = make.op("Tile", [x], (2 * elements,), name="outside")
    carried = make.op("Slice", [outside], (elements,), name="carried")
    start = make.begin("While", [carried, outside], alias=carried, name="while", trip_count=trips)
    inner = make.op("Tile", [outside], (4 * elements,), name="inner", runs=trips)
    make.op("Slice", [inner], (elements,), name="next", runs=trips)
    make.end(start)
    make.op("Tile", [carried], (2 * elements,), name="after")
    return make.workload()


def pipeline(
    stages: int = 4,
    schedule: PipelineSchedule = PipelineSchedule.Grouped,
    count: int | None = None,
    batch: int = 32,
    width: int = 128,
    devices: Sequence[int] | None = None,
    **description: Any,
) -> Workload:
    """A pipeline of dense layers, two to a stage, with a backward pass and an update.

    Each stage keeps three tensors of `batch * width` floats for its backward pass: the input of its
    first layer, the result of it, and the result of the second.
    """
    devices = tuple(range(stages)) if devices is None else tuple(devices)
    make = Builder(max(devices) + 1)
    weights = [
        [make.variable(f"w{s}_{i}", (width, width), ipu=devices[s]) for i in range(2)]
        for s in range(stages)
    ]
    sums = [
        [
            make.variable(f"sum{s}_{i}", (width, width), role="accumulator", ipu=devices[s])
            for i in range(2)
        ]
        for s in range(stages)
    ]
    mini_batches = 4 * stages if count is None else count
    start = make.begin("While", name="pipeline", trip_count=mini_batches)
    common = {"runs": mini_batches}
    at = {"ipu": devices[0], "stage": 0, **common}
    value = make.op("IpuInfeedDequeue", [], (batch, width), name="infeed", **at)
    kept = []
    for s in range(stages):
        at = {"ipu": devices[s], "stage": s, **common}
        for i in range(2):
            before = value
            product = make.op("MatMul", [value, weights[s][i]], (batch, width), **at)
            value = make.op("Relu", [product], (batch, width), **at)
            kept.append((s, i, before, value))
    make.op("IpuOutfeedEnqueue", [value], name="outfeed", **at)
    gradient = value
    for s, i, before, after in reversed(kept):
        at = {"ipu": devices[s], "stage": s, "phase": "backward", **common}
        gradient = make.op("ReluGrad", [gradient, after], (batch, width), **at)
        of_weight = make.op(
            "MatMul", [before, gradient], (width, width), attributes={"transpose_a": True}, **at
        )
        make.op("AssignAddVariableOp", [sums[s][i], of_weight], **at)
        if s or i:
            gradient = make.op(
                "MatMul", [gradient, weights[s][i]], (batch, width),
                attributes={"transpose_b": True}, **at,
            )  # fmt: skip
    branch = make.begin("If", name="update_now", runs=mini_batches)
    for s, i, _, _ in kept:
        at = {"ipu": devices[s], "stage": s, "phase": "update", "conditional": True}
        make.op("ResourceApplyGradientDescent", [weights[s][i], sums[s][i]], **at)
    make.end(branch)
    make.end(start)
    pipelined = PipelineDescription(devices, mini_batches, schedule=schedule, **description)
    names = tuple(f"stage{s}" for s in range(stages))
    return make.workload(pipeline=pipelined, stage_names=names, batch=batch)


_SHAPES = st.sampled_from([(), (3,), (32,), (33, 7), (64, 64), (128, 300), (1 << 16,)])
_DTYPES = st.sampled_from(["float32", "float16", "int32"])
_ROLES = st.sampled_from(["weight", "optimizer state", "accumulator", "other"])
_TYPES = st.sampled_from(["Relu", "AddV2", "Tile", "MatMul", "Transpose", "BiasAdd", "Identity"])


@st.composite
def workloads(draw: Any, ops: int = 14, ipus: int = 2) -> Workload:
    """Random programs with variables, constants, loops, branches and gradients on several IPUs."""
    make = Builder(ipus)
    where = st.integers(0, ipus - 1)
    values = [make.input("x", draw(_SHAPES), draw(_DTYPES))]
    held = [
        make.variable(
            f"v{i}", draw(_SHAPES), draw(_DTYPES), draw(_ROLES), draw(where),
            offloaded=draw(st.booleans()), split=draw(st.sampled_from([1, 2, 4])),
        )
        for i in range(draw(st.integers(0, 4)))
    ]  # fmt: skip
    values += [make.constant(f"c{i}", draw(_SHAPES), draw(where)) for i in range(2)]
    open_op, left = None, 0
    for i in range(draw(st.integers(1, ops))):
        if open_op is None and draw(st.integers(0, 5)) == 0:
            kind = draw(st.sampled_from(["While", "If", "PartitionedCall"]))
            trips = 3 if kind == "While" else None
            open_op, left = make.begin(kind, [values[-1]], trip_count=trips), 3
        inputs = draw(st.lists(st.sampled_from(values + held), min_size=0, max_size=3))
        prefix = "gradients/" if i > ops // 2 else ""
        alias = values[-1] if draw(st.integers(0, 9)) == 0 else None
        shape = None if alias is not None else draw(_SHAPES)
        made = make.op(
            draw(_TYPES), inputs, shape, draw(_DTYPES), alias=alias, name=f"{prefix}op{i}",
            ipu=draw(where),
        )  # fmt: skip
        values.append(made)
        left -= 1
        if open_op is not None and left == 0:
            make.end(open_op)
            open_op = None
    if open_op is not None:
        make.end(open_op)
    return make.workload()


@st.composite
def pipelines(draw: Any) -> Workload:
    """Random pipelines of 2 to 4 stages."""
    stages = draw(st.integers(2, 4))
    return pipeline(
        stages,
        draw(st.sampled_from(list(PipelineSchedule))),
        batch=draw(st.sampled_from([1, 7, 32])),
        width=draw(st.sampled_from([8, 33, 128])),
    )
