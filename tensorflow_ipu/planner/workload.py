"""`Workload`: a compiled program as pure data, all that memory and time depend on.

The compiler makes a Workload from an Executable. It can be saved, changed (another batch size,
other stages) and planned for another chip without the program that it came from.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from tensorflow_ipu.costs.cost import OpSpec, TensorType
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.schedule.description import PipelineDescription
from tensorflow_ipu.util.short_repr import Shown, shows

# Kinds of buffers.
VARIABLE = "variable"  # the value of a variable; always live
CONSTANT = "constant"  # a constant of the program; always live
TENSOR = "tensor"  # made by an op, live from there to its last use
INPUT = "input"  # an argument of the program that the host sends at each launch

#: Name of the ops of `pipelining_ops.recomputation_checkpoint`.
CHECKPOINT = "recomputation_checkpoint"

# APIs of programs, besides TensorFlow's.
POPXL = "popxl"
POPART = "popart"


class Buffer(NamedTuple):
    """Memory of one tensor or several. Ops that make no new data share one.

    Args:
        name: name of the tensor, argument or variable that it was made for.
        dtype: element type.
        shape: dimensions, unknown ones taken as 1.
        kind: one of the constants above.
        ipu: its IPU within the replica; None for buffers of the host.
        variable: index into `Workload.variables`, for a variable.
        entries: number of tensors of that shape: more than 1 for the list that a loop fills.
        batched: index of the dimension that grows with the batch size, None if none does.
        label: `assumed` where dimensions were unknown, else `exact`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str
    ipu: int | None
    variable: int | None = None
    entries: int = 1
    batched: int | None = None
    label: Label = Label.EXACT

    @property
    def type(self) -> TensorType:
        """Type and shape of one of its tensors."""
        return TensorType(self.dtype, self.shape)

    @property
    def num_bytes(self) -> int:
        """Its size in bytes."""
        return self.entries * self.type.num_bytes


class Operand(NamedTuple):
    """A tensor that is an operand or result of an op.

    Args:
        dtype: element type.
        shape: dimensions, unknown ones taken as 1.
        buffer: index into `Workload.buffers`; None for handles and other tensors without memory.
    """

    dtype: str
    shape: tuple[int, ...]
    buffer: int | None

    @property
    def type(self) -> TensorType:
        """Type and shape."""
        return TensorType(self.dtype, self.shape)


@dataclasses.dataclass(frozen=True)
class Op:
    """One op of a Workload.

    Attributes:
        name: Name of the op in its function.
        type: Op type of TensorFlow.
        layer: The layer (name scope) that it belongs to, for grouping; empty if none.
        ipu: Its IPU within the replica; None on the host. An op on several IPUs, such as a loop,
            has the first.
        inputs: Its operands.
        outputs: Its results.
        attributes: Its attributes that are numbers, texts, booleans or lists of them.
        end: Index one past the last op of the functions it runs; its own index + 1 without any.
        runs: Executions in one launch; `assumed` where trip counts are unknown.
        trip_count: Iterations of a loop; None for other ops.
        conditional: Whether it is in a branch that may not be taken.
        stage: Pipeline stage, None outside of pipelines.
        phase: `backward` or `update`; empty for forward ops and outside of training.
        source: Line of the user's program, such as `train.py:12 (step)`; empty if unknown.
        flops: Floating-point operations of one execution, None without a formula.
        label: Label of `runs` and the shapes.
        branch: Which branch of the innermost conditional around it the op is in, from 0.
    """

    name: str
    type: str
    layer: str
    ipu: int | None
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    end: int
    runs: int = 1
    trip_count: int | None = None
    conditional: bool = False
    stage: int | None = None
    phase: str = ""
    source: str = ""
    flops: int | None = None
    label: Label = Label.EXACT
    branch: int = 0

    __repr__ = shows(
        lambda self: {
            "": self.name,
            "type": self.type,
            "layer": self.layer or None,
            "inputs": [Shown(f"{o.dtype}{list(o.shape)}") for o in self.inputs],
            "outputs": [Shown(f"{o.dtype}{list(o.shape)}") for o in self.outputs],
            "ipu": self.ipu,
            "runs": self.runs,
            "source": self.source or None,
        }
    )

    @functools.cached_property
    def spec(self) -> OpSpec:
        """The type, operands and attributes that its cost is computed from."""
        return OpSpec(
            self.type,
            tuple(operand.type for operand in self.inputs),
            tuple(operand.type for operand in self.outputs),
            self.attributes,
        )

    @property
    def is_checkpoint(self) -> bool:
        """Whether it marks an activation that is kept when others are recomputed."""
        return CHECKPOINT in self.name


class Variable(NamedTuple):
    """A variable of the program.

    Args:
        name: its name.
        dtype: element type.
        shape: dimensions.
        role: `weight`, `optimizer state`, `accumulator` or `other`.
        ipu: where it is kept, within a replica.
        offloaded: whether it is kept in streaming memory.
        split: over how many replicas it is split; 1 when each has all of it.
        entries: for a remote buffer, how many entries it has, which ops load and store one at a
            time; 0 for a variable.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    ipu: int
    offloaded: bool = False
    split: int = 1
    entries: int = 0

    @property
    def num_bytes(self) -> int:
        """Its size in bytes, whole."""
        return TensorType(self.dtype, self.shape).num_bytes

    @property
    def share(self) -> int:
        """Bytes of it that one replica has."""
        elements = TensorType(self.dtype, self.shape).elements
        return -(-elements // self.split) * TensorType(self.dtype, ()).element_size


class Copy(NamedTuple):
    """A tensor copied from one IPU to another, at each run of its producer.

    Args:
        tensor: name of the tensor.
        source: IPU that has it.
        destination: IPU that uses it.
        num_bytes: size.
        runs: copies in one launch.
        stage: pipeline stage that makes it, None outside of pipelines.
        phase: phase of the op that makes it.
        label: label of size and runs.
    """

    tensor: str
    source: int
    destination: int
    num_bytes: int
    runs: int
    stage: int | None = None
    phase: str = ""
    label: Label = Label.EXACT


@dataclasses.dataclass(frozen=True)
class Workload:
    """A compiled program as data.

    Ops are in program order: ops of loops, branches and calls follow the op that runs them, up to
    its `end`. A buffer of kind `tensor` is made by the first op that has it as an output.

    Attributes:
        name: Name of the program.
        ops: Its ops.
        buffers: Memory of its tensors.
        variables: Its variables.
        copies: Tensors that go between the IPUs of a replica.
        ipus: IPUs of one replica.
        pipeline: Description of its pipeline, None without one.
        stage_names: A name for each pipeline stage.
        batch: Elements of an infeed's or input's first dimension, None if it is not known.
        fingerprint: Hash of the program that it describes.
        api: The API of the program, for instructions in its words: `POPXL`, `POPART`; else empty,
            for TensorFlow and Keras.
    """

    name: str
    ops: tuple[Op, ...]
    buffers: tuple[Buffer, ...]
    variables: tuple[Variable, ...]
    copies: tuple[Copy, ...]
    ipus: int
    pipeline: PipelineDescription | None = None
    stage_names: tuple[str, ...] = ()
    batch: int | None = None
    fingerprint: str = ""
    api: str = ""

    def moves_entry(self, op: Op) -> bool:
        """Returns whether an op loads or stores an entry of a remote buffer, a transfer.

        Args:
            op: one of the ops.
        """
        buffer = op.inputs[0].buffer if op.inputs else None
        variable = None if buffer is None else self.buffers[buffer].variable
        return variable is not None and self.variables[variable].entries > 0

    __repr__ = shows(
        lambda self: {
            "": self.name,
            "ops": len(self.ops),
            "buffers": len(self.buffers),
            "variables": len(self.variables),
            "ipus": self.ipus,
            "stages": len(self.stage_names) or None,
            "batch": self.batch,
        }
    )
