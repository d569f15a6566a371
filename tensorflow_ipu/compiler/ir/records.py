"""Records of a listing: arguments, ops and results of a compiled program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from tensorflow_ipu.compiler.sources.frames import KerasFrames
from tensorflow_ipu.util.short_repr import Shown, short_repr

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.sources.frames import SourceLocation


@dataclass(frozen=True)
class ArgumentSpec:
    """An argument of a compiled program.

    Args:
        name: a name to show.
        dtype: element type; for a variable, the variable's and not the handle's.
        shape: dimensions; for a variable, the variable's.
        is_variable: whether the argument is the handle of a resource variable.
    """

    name: str
    dtype: tf.DType
    shape: tuple[int | None, ...]
    is_variable: bool = False

    @property
    def num_bytes(self) -> int | None:
        """Size in bytes, `None` when the shape is not static."""
        count = tf.TensorShape(self.shape).num_elements()
        return None if count is None else int(count) * tf.as_dtype(self.dtype).size


class TensorRecord(NamedTuple):
    """A result of an op.

    Args:
        dtype: name of the element type.
        shape: dimensions, `None` where unknown; `None` for unknown rank.
    """

    dtype: str
    shape: tuple[int | None, ...] | None


class OpRecord(NamedTuple):
    """One op of a compiled program.

    Args:
        name: name of the op in its function.
        type: op type.
        function: name of the `FunctionDef` the op is in.
        depth: number of loops, branches and calls around the op.
        ipus: indices of the IPUs it runs on within one replica; empty on the host.
        inputs: names of its data inputs in its function, as in a `GraphDef`.
        outputs: its results.
        bytes_in: bytes of its data inputs, and of the variables it reads; `None` when a shape is
            unknown. Handles count nothing.
        bytes_out: bytes of its results, and of the variables it writes; `None` likewise.
        flops: floating-point operations of one execution; `None` without a formula.
        flops_label: `exact`, `modelled` or `assumed`; empty without a formula.
        trip_count: iterations of a loop; `None` for other ops and where it is not a constant.
        runs: executions in one launch if each branch around it is taken; `None` inside a loop of
            unknown trip count.
        conditional: whether the op is in a branch.
        source: where the user's program made the op; `None` when unknown. For an op of a gradient,
            where it made the forward op.
        stage: the pipeline stage it is in; `None` outside of pipelines.
        phase: phase of the pipeline, `backward` or `update`; empty for forward ops and outside of
            pipelines.
        original: for an op of a gradient, the name of the forward op; empty if that is not known.
        keras: layer depth and part of Keras in which it was made.
        layer: the layer that a front end declares for it, within the layer of the call around it;
            None if its layer follows from names and variables.
    """

    name: str
    type: str
    function: str
    depth: int
    ipus: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[TensorRecord, ...]
    bytes_in: int | None
    bytes_out: int | None
    flops: int | None
    flops_label: str
    trip_count: int | None = None
    runs: int | None = 1
    conditional: bool = False
    source: SourceLocation | None = None
    stage: int | None = None
    phase: str = ""
    original: str = ""
    keras: KerasFrames = KerasFrames()
    layer: str | None = None

    def __repr__(self) -> str:
        shown = {
            "": self.name,
            "type": self.type,
            "ipus": self.ipus,
            "outputs": [Shown(f"{o.dtype}{list(o.shape or ())}") for o in self.outputs],
            "flops": self.flops,
            "runs": self.runs,
            "stage": self.stage,
            "source": self.source and Shown(self.source),
        }
        return short_repr(type(self).__name__, shown)

    @property
    def ipu(self) -> int | None:
        """The first IPU the op runs on, `None` for the host."""
        return self.ipus[0] if self.ipus else None


class CopyRecord(NamedTuple):
    """A tensor that is copied from one IPU to another.

    Args:
        tensor: name of the tensor in its function, or of the variable.
        function: name of the `FunctionDef` that the copy is in.
        source: index of the IPU that has the tensor, within one replica.
        destination: index of the IPU that uses it.
        bytes: size of one copy; `None` when the shape is unknown.
        runs: how often it is copied in one launch, were each branch it is in taken; `None` inside a
            loop of unknown trip count.
        conditional: whether the copy is in a branch.
        label: `exact`; `assumed` where a branch may not be taken or a trip count is unknown; empty
            without a size.
    """

    tensor: str
    function: str
    source: int
    destination: int
    bytes: int | None
    runs: int | None
    conditional: bool
    label: str
