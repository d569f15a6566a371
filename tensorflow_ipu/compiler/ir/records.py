"""Records of a listing: arguments, ops and results of a compiled program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.ir.function_graphs import FunctionImporter, invariant_arguments
from tensorflow_ipu.compiler.source_map import KerasFrames
from tensorflow_ipu.util.short_repr import Shown, short_repr

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.source_map import SourceLocation


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


# --- The listing of a program as a tree of functions, ops and the functions they run ---


class CalledOp(NamedTuple):
    """One op of a function, with the functions that it runs.

    Args:
        record: its record in the listing.
        node: its definition.
        inputs: names of its input tensors, as in `Call.arguments`.
        outputs: names of its results.
        stateful: whether TensorFlow says that it has state.
        calls: the functions it runs.
    """

    record: OpRecord
    node: node_def_pb2.NodeDef
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stateful: bool
    calls: tuple[Call, ...]

    @property
    def type(self) -> str:
        """The type of the op."""
        return self.record.type


class Call(NamedTuple):
    """A function as one op runs it.

    Args:
        function: its name.
        arguments: names of its arguments as tensors: `node:index`.
        results: names of the tensors that it returns.
        invariant: indices of the arguments that it returns unchanged at the same index.
        ops: its ops in the order of the listing.
    """

    function: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    invariant: frozenset[int]
    ops: tuple[CalledOp, ...]


def call_tree(importer: FunctionImporter, entry: str, records: Sequence[OpRecord]) -> Call:
    """Returns the tree of a listing.

    Args:
        importer: has the program's functions.
        entry: name of the function that is the program.
        records: the listing of these, from `listing.list_ops`.

    Raises:
        ValueError: The listing is not of these functions.
    """
    return _Builder(importer, iter(records)).call(entry)


class _Builder:
    """Builder of the tree, from records in the order of the listing."""

    def __init__(self, importer: FunctionImporter, records: Iterator[OpRecord]) -> None:
        self._importer = importer
        self._records = records

    def call(self, name: str) -> Call:
        """Takes the records of a function."""
        definition = self._importer.definition(name)
        nodes = {node.name: node for node in definition.node_def}
        ops = tuple(self._op(name, nodes) for _ in nodes)
        arguments, results = self._importer.tensors(name)
        invariant = frozenset(invariant_arguments(definition))
        return Call(name, arguments, results, invariant, ops)

    def _op(self, function: str, nodes: dict[str, node_def_pb2.NodeDef]) -> CalledOp:
        """Takes the records of a function's next op and of the functions that the op runs."""
        record = next(self._records, None)
        if record is None or record.function != function or record.name not in nodes:
            raise ValueError(
                f"Expected the listing of a program with function {function!r}, received one "
                f"that has {record} there. List the ops of this very library."
            )
        node = nodes[record.name]
        definition = op_def_registry.get(node.op)
        return CalledOp(
            record,
            node,
            tuple([name if ":" in name else name + ":0" for name in record.inputs]),
            tuple([f"{record.name}:{index}" for index in range(len(record.outputs))]),
            definition is not None and definition.is_stateful,
            tuple([self.call(name) for name in self._called(node)]),
        )

    def _called(self, node: node_def_pb2.NodeDef) -> list[str]:
        """Returns the callees of an op, in the order of the listing."""
        if node.op in self._importer:
            return [node.op]
        definition = op_def_registry.get(node.op)
        names: list[str] = []
        for attribute in () if definition is None else definition.attr:
            if attribute.type == "func":
                names.append(node.attr[attribute.name].func.name)
            elif attribute.type == "list(func)":
                names += [function.name for function in node.attr[attribute.name].list.func]
        return [name for name in names if name in self._importer]
