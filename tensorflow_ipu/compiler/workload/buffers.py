"""Buffers of a Workload: the tensors in them, and the buffer of each result of an op."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from tensorflow_ipu.compiler.ir.records import CalledOp, OpRecord, TensorRecord
from tensorflow_ipu.compiler.workload.attributes import constant_of, is_uniform
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.workload import (
    CONSTANT,
    INPUT,
    TENSOR,
    VARIABLE,
    Buffer,
    Operand,
    Variable,
)
from tensorflow_ipu.util import op_names

# Types without memory of an IPU: handles, and texts.
HANDLES = ("resource", "variant", "string")
# Integers and flags with few elements are shapes, axes, bounds and counters: they are part of the
# code, not data, as long as they are known when the program is compiled.
LARGEST_INDEX = 16
INDEX_TYPES = ("int32", "int64", "bool")


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor while the program is followed.

    Attributes:
        dtype: Element type; for the handle of a variable, the variable's.
        shape: Dimensions, unknown ones 1; for the handle of a variable, the variable's.
        buffer: Buffer that it is in, None if it takes no memory.
        exact: Whether all dimensions are known.
        fixed: Whether it is known when the program is compiled.
        constant: Its value, for a small constant of integers.
        variable: Index of the variable that it is the handle of.
        batched: Index of the dimension that grows with the batch size.
        every: For the condition of an update: N, if it holds once in N runs; else 0.
    """

    dtype: str
    shape: tuple[int, ...]
    buffer: int | None = None
    exact: bool = True
    fixed: bool = False
    constant: np.ndarray | None = None
    variable: int | None = None
    batched: int | None = None
    every: int = 0

    @property
    def operand(self) -> Operand:
        """The value as an operand of an op."""
        return Operand(self.dtype, self.shape, self.buffer)

    @property
    def is_index(self) -> bool:
        """Whether it is as small as shapes and counters are."""
        return self.dtype in INDEX_TYPES and math.prod(self.shape) <= LARGEST_INDEX

    def kept_in(self, buffer: int | None) -> Value:
        """Returns the tensor in another buffer, no longer a compile-time constant."""
        return Value(self.dtype, self.shape, buffer, self.exact, batched=self.batched)


def value_of(record: TensorRecord) -> Value:
    """Returns a result of an op, without memory so far."""
    if record.shape is None:
        return Value(record.dtype, (), exact=record.dtype in HANDLES)
    exact = None not in record.shape or record.dtype in HANDLES
    return Value(record.dtype, tuple(1 if d is None else d for d in record.shape), exact=exact)


class Buffers:
    """All buffers found so far."""

    def __init__(self) -> None:
        self._found: list[Buffer] = []
        # Runs of the op that made a list which grows, by the list's buffer.
        self._growing: dict[int, int] = {}
        self._lists: set[int] = set()

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> tuple[Buffer, ...]:
        """Returns all buffers."""
        return tuple(self._found)

    def variable(self, index: int, variable: Variable) -> int:
        """Adds the buffer of a variable; its IPU is set at its first use."""
        return self._add(
            Buffer(variable.name, variable.dtype, variable.shape, VARIABLE, None, variable=index)
        )

    def constant(self, name: str, value: Value, ipu: int | None, uniform: bool) -> int:
        """Adds a constant. A constant with equal elements takes the memory of one element."""
        shape = () if uniform else value.shape
        return self._add(Buffer(name, value.dtype, shape, CONSTANT, ipu))

    def input(self, name: str, value: Value) -> int:
        """Adds an argument of the program; it goes to the IPU of its first user."""
        return self._add(Buffer(name, value.dtype, value.shape, INPUT, None, batched=value.batched))

    def tensor(self, name: str, value: Value, ipu: int | None) -> int:
        """Adds a buffer for a result of an op."""
        label = Label.EXACT if value.exact else Label.ASSUMED
        return self._add(
            Buffer(name, value.dtype, value.shape, TENSOR, ipu, batched=value.batched, label=label)
        )

    def list(
        self, name: str, ipu: int | None, shape: Sequence[int] | None, count: int | None, runs: int
    ) -> int:
        """Adds a list of tensors.

        Args:
            name: of the tensor that is the list.
            ipu: where it is.
            shape: of an element, None if it is known from the first element only.
            count: number of elements, None for a list that grows with each element.
            runs: executions of the op that made it, in one launch.
        """
        index = self._add(
            Buffer(name, "", tuple(shape or ()), TENSOR, ipu, entries=0 if count is None else count)
        )
        self._lists.add(index)
        if count is None:
            self._growing[index] = max(runs, 1)
        return index

    def is_list(self, index: int) -> bool:
        """Returns whether a buffer was made for a list rather than for a tensor."""
        return index in self._lists

    def same(self, name: str, other: int, ipu: int | None) -> int:
        """Adds a list like another one."""
        index = self._add(self._found[other]._replace(name=name, ipu=ipu))
        if other in self._lists:
            self._lists.add(index)
        return index

    def put(self, index: int, element: Value, runs: int | None) -> None:
        """Records that an op puts an element into a list.

        Args:
            index: buffer of the list.
            element: the element.
            runs: executions of the op in one launch, None if unknown.
        """
        buffer = self._found[index]
        if not buffer.dtype:
            buffer = buffer._replace(
                dtype=element.dtype,
                shape=element.shape,
                batched=element.batched,
                label=Label.EXACT if element.exact else Label.ASSUMED,
            )
        if index in self._growing:
            more = -(-(runs or 1) // self._growing[index])
            buffer = buffer._replace(
                entries=buffer.entries + more, label=Label.ASSUMED if runs is None else buffer.label
            )
        self._found[index] = buffer

    def settle(self, index: int, ipu: int | None) -> None:
        """Records a use of a buffer: the first one sets the IPU of a variable or argument."""
        buffer = self._found[index]
        if buffer.ipu is None and ipu is not None and buffer.kind in (VARIABLE, INPUT):
            self._found[index] = buffer._replace(ipu=ipu)

    def __getitem__(self, index: int) -> Buffer:
        return self._found[index]

    def _add(self, buffer: Buffer) -> int:
        self._found.append(buffer)
        return len(self._found) - 1


# TensorFlow does not follow the shapes of a list's elements into the gradients of loops. Here the
# elements of a list have the shape of the tensors put into it, so shapes computed from them are
# known too.

Shape = tuple[int, ...]
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "All", "Any"})

# Ops that work element by element, on inputs of one shape or of shapes that broadcast.
_ELEMENTWISE = frozenset(
    {
        *("Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan"),
        *("Maximum", "Minimum", "SquaredDifference", "Pow", "SelectV2", "Select"),
        *("Tanh", "TanhGrad", "Sigmoid", "SigmoidGrad", "Relu", "ReluGrad", "Exp", "Log", "Neg"),
        *("Square", "Sqrt", "Rsqrt", "Softplus", "SoftplusGrad", "Elu", "EluGrad", "Cast", "Abs"),
        *("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "ZerosLike"),
        *("OnesLike", "Identity", "StopGradient", "PreventGradient", "Snapshot", "BiasAdd"),
    }
)


def infer(
    op_type: str, given: Mapping[str, Any], inputs: Sequence[Shape], index: int
) -> Shape | None:
    """Returns the shape of a result; None if the inputs do not determine it.

    Args:
        op_type: type of the op.
        given: its attributes and constant inputs by name.
        inputs: shapes of its inputs, all known.
        index: which result.
    """
    if index or not inputs:
        return None
    if op_type in _ELEMENTWISE:
        try:
            return tuple(np.broadcast_shapes(*inputs))
        except ValueError:
            return None
    if op_type == "MatMul":
        rows, columns = bool(given.get("transpose_a")), not given.get("transpose_b")
        return (inputs[0][rows], inputs[1][columns])
    axes = given.get("axes")
    if op_type == "Transpose" and axes is not None and len(axes) == len(inputs[0]):
        return tuple(inputs[0][axis] for axis in axes)
    if op_type == "ConcatV2" and axes is not None:
        return _concatenated(inputs[:-1], axes[0])
    if op_type in _REDUCTIONS and axes is not None:
        kept = (1,) if given.get("keep_dims") else ()
        sizes = [kept if axis in axes else (size,) for axis, size in enumerate(inputs[0])]
        return tuple(size for part in sizes for size in part)
    if op_type == "BiasAddGrad" and given.get("data_format", "NHWC") == "NHWC":
        return inputs[0][-1:]
    return None


def _concatenated(inputs: Sequence[Shape], axis: int) -> Shape:
    joined = list(inputs[0])
    joined[axis] = sum(shape[axis] for shape in inputs)
    return tuple(joined)


# --- Dataflow of the batch dimension from an op's inputs to its results ---

# Type and shape matter here only: a shape, and the dimension that grows with the batch.
Batched = tuple[tuple[int, ...], Optional[int]]

# Ops whose results are sums over the batch or describe shapes, for any dimensions.
_WITHOUT = frozenset(
    {
        *("BiasAddGrad", "Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs", "Range"),
        *("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "Conv3DBackpropFilter"),
        "DepthwiseConv2dNativeBackpropFilter",
    }
)

_FIRST_RESULT_ONLY = ("FusedBatchNorm", "PopnnGroupNorm", "PopnnLayerNorm")
_REDUCING_OPS = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "ArgMax", "ArgMin"})
_RESHAPES = frozenset({"Reshape", "Squeeze", "ExpandDims"})


def batched_dimension(
    op_type: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[Batched],
    index: int,
    shape: tuple[int, ...],
) -> int | None:
    """Returns the dimension of a result that grows with the batch size.

    Args:
        op_type: type of the op.
        attributes: its attributes, `axes` included.
        inputs: shape and batched dimension of each input.
        index: which result.
        shape: its shape.

    Returns:
        The index of the dimension, None if none does as far as is known.
    """
    if op_type in _WITHOUT or (index and op_type.startswith(_FIRST_RESULT_ONLY)):
        return None
    if op_type == "MatMul":
        return _product(attributes, inputs)
    for input_shape, batched in inputs:
        if batched is not None:
            found = _carried(op_type, attributes, input_shape, batched, shape)
            if found is not None:
                return found
    return None


def _product(attributes: Mapping[str, Any], inputs: Sequence[Batched]) -> int | None:
    """Returns the batched dimension of a matrix product: rows are the first operand's."""
    for position, name in enumerate(("transpose_a", "transpose_b")):
        batched = inputs[position][1]
        kept = position ^ bool(attributes.get(name))
        if batched is not None and batched == kept:
            return position
    return None


def _carried(
    op_type: str,
    attributes: Mapping[str, Any],
    before: tuple[int, ...],
    batched: int,
    after: tuple[int, ...],
) -> int | None:
    """Returns the position of an input's batched dimension in the result."""
    axes = attributes.get("axes")
    if op_type in _REDUCING_OPS:
        if axes is None or batched in axes:
            return None
        if len(after) == len(before):
            return batched
        return batched - sum(axis < batched for axis in axes)
    if op_type == "Transpose":
        return axes.index(batched) if axes and batched in axes else None
    if op_type in _RESHAPES:
        return _reshaped(before, batched, after)
    # Aligned from the end for ops that broadcast, from the start for all others.
    for moved in (batched, batched + len(after) - len(before)):
        if 0 <= moved < len(after) and after[moved] == before[batched]:
            return moved
    return None


def _reshaped(before: tuple[int, ...], batched: int, after: tuple[int, ...]) -> int | None:
    """Returns the index of a dimension after a reshape: the product in front of it is unchanged.

    The reshape may merge the dimension with the one behind it, or split it.
    """
    front, size = math.prod(before[:batched]), before[batched]
    for index, now in enumerate(after):
        fits = 0 not in (now, size) and 0 in (now % size, size % now)
        if math.prod(after[:index]) == front and fits and (now > 1 or size == 1):
            return index
    return None


# --- Buffers of the results of an op: an input's buffer, a new one, or none ---

# Ops whose first result is another view of the memory of their first input.
_VIEWS = frozenset(
    {
        *("Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics"),
        *("Reshape", "Squeeze", "ExpandDims", "Bitcast", "EnsureShape", op_names.READ),
        *("PlaceholderWithDefault", "DebugGradientIdentity", "DebugGradientRefIdentity"),
        *(op_names.FRAME_OPS - op_names.SWITCHES),
        *(op_names.EQUALITY_PROMISE, "IpuCheckNumerics"),
        # A list and the tensor of all its elements are the same memory, and lists are filled in
        # place.
        *("TensorListFromTensor", "TensorListStack", "TensorListConcat", "TensorListConcatV2"),
        *("TensorListResize", "TensorListSetItem", "TensorListPushBack", "TensorListPopBack"),
    }
)

# All of whose results are views of the input at the same position, or of the first.
_VIEWS_OF_EACH = frozenset({"IdentityN"})
_VIEWS_OF_FIRST = op_names.SWITCHES
# Slices of everything, which may add and remove dimensions of size 1.
_SLICES = frozenset({"Slice", "StridedSlice"})

# Ops that make a list: positions of the shape of an element, and of their number.
_LIST_MAKERS: dict[str, tuple[int, int | None]] = {
    "TensorListReserve": (0, 1),
    "EmptyTensorList": (0, None),
}

# Ops that put an element into a list: its position.
_LIST_WRITERS = {"TensorListSetItem": 2, "TensorListPushBack": 1}
# Ops that take an element out of a list.
_LIST_READERS = frozenset({"TensorListPopBack", "TensorListGetItem"})
# Ops whose results follow from the shapes of their inputs alone.
_OF_SHAPES = frozenset({*op_names.SHAPE_QUERIES, "TensorListLength", "TensorListElementShape"})


def compute(
    op: CalledOp,
    inputs: list[Value],
    results: list[Value],
    given: Mapping[str, Any],
    buffers: Buffers,
    batch: int | None,
) -> list[Value]:
    """Returns the results of an op with their buffers.

    Args:
        op: the op. Functions that it runs are ignored.
        inputs: its inputs.
        results: its results, with types and shapes only. They are changed.
        given: its attributes and constant inputs by name.
        buffers: all buffers. New ones are added.
        batch: the batch size, None if it is not known.

    Returns:
        The results.
    """
    record = op.record
    if record.type == "Const":
        _constant(op, results[0], buffers)
    elif record.type in _LIST_MAKERS:
        _list(record, inputs, results[0], buffers)
    else:
        fixed = _is_fixed(op, inputs)
        for index, result in enumerate(results):
            result.fixed = fixed
            if not result.exact:
                _complete(record, inputs, result, given, index, buffers)
            result.batched = _batched(record, inputs, result, given, index, buffers, batch)
            results[index] = _placed(record, inputs, result, given, index, buffers)
        _facts(record, inputs, results)
    return results


def _constant(op: CalledOp, result: Value, buffers: Buffers) -> None:
    """Places a constant: small integers are part of the program, others have a buffer."""
    result.fixed = True
    if result.is_index:
        result.constant = constant_of(op.node, LARGEST_INDEX)
    elif result.dtype not in HANDLES:
        uniform = is_uniform(op.node)
        result.buffer = buffers.constant(f"{op.record.name}:0", result, op.record.ipu, uniform)


def _list(record: OpRecord, inputs: list[Value], result: Value, buffers: Buffers) -> None:
    """Places a list: one buffer for all its elements."""
    shape_input, count_input = _LIST_MAKERS[record.type]
    shape = inputs[shape_input].constant
    known = shape is not None and shape.ndim == 1 and bool((shape >= 0).all())
    count = None if count_input is None else inputs[count_input].constant
    result.buffer = buffers.list(
        f"{record.name}:0",
        record.ipu,
        [int(size) for size in shape] if known and shape is not None else None,
        None if count is None else int(count),
        record.runs or 1,
    )


def _complete(
    record: OpRecord,
    inputs: list[Value],
    result: Value,
    given: Mapping[str, Any],
    index: int,
    buffers: Buffers,
) -> None:
    """Sets the shape of a result from the inputs, if TensorFlow does not infer it."""
    shape: tuple[int, ...] | None = None
    if record.type in _LIST_READERS and inputs and inputs[0].buffer is not None:
        kept = buffers[inputs[0].buffer]
        if kept.dtype and kept.label is Label.EXACT:
            # The memory of a list of such elements, or of the tensor of all of them.
            shape = kept.shape if buffers.is_list(inputs[0].buffer) else kept.shape[1:]
    elif all([value.exact for value in inputs]):
        shape = infer(record.type, given, [value.shape for value in inputs], index)
    if shape is not None:
        result.shape, result.exact = shape, True


def _placed(
    record: OpRecord,
    inputs: list[Value],
    result: Value,
    given: Mapping[str, Any],
    index: int,
    buffers: Buffers,
) -> Value:
    """Returns a result with its place."""
    source = _source(record, inputs, result, given, index)
    if source is not None:
        if source.variable is not None and record.outputs[index].dtype == "resource":
            return source
        result.buffer = source.buffer
        if source.constant is not None and source.constant.size == math.prod(result.shape):
            result.constant = source.constant.reshape(result.shape)
        if record.type in _LIST_WRITERS and source.buffer is not None:
            buffers.put(source.buffer, inputs[_LIST_WRITERS[record.type]], record.runs)
    elif result.dtype == "variant":
        if inputs and inputs[0].buffer is not None and record.type == "ZerosLike":
            result.buffer = buffers.same(f"{record.name}:{index}", inputs[0].buffer, record.ipu)
    elif result.dtype not in HANDLES and not (result.fixed and result.is_index):
        result.buffer = buffers.tensor(f"{record.name}:{index}", result, record.ipu)
    return result


def _source(
    record: OpRecord,
    inputs: list[Value],
    result: Value,
    given: Mapping[str, Any],
    index: int,
) -> Value | None:
    """Returns the input whose memory a result shares; None for a result of its own."""
    if not inputs:
        return None
    if record.type in _VIEWS_OF_EACH:
        return inputs[index]
    if record.type in _VIEWS_OF_FIRST or (index == 0 and record.type in _VIEWS):
        return inputs[0]
    if record.type == "AddN" and result.dtype == "variant":
        return inputs[0]  # lists are added up in place
    if record.type in _SLICES and math.prod(result.shape) == math.prod(inputs[0].shape):
        steps = given.get("steps", [1])
        return inputs[0] if result.exact and all(step == 1 for step in steps) else None
    return None


def _batched(
    record: OpRecord,
    inputs: list[Value],
    result: Value,
    given: Mapping[str, Any],
    index: int,
    buffers: Buffers,
    batch: int | None,
) -> int | None:
    """Returns the dimension of a result that grows with the batch."""
    if not inputs:
        fed = record.type == op_names.INFEED
        return 0 if fed and batch is not None and result.shape[:1] == (batch,) else None
    if record.type.startswith("TensorList") and inputs[0].buffer is not None:
        kept = buffers[inputs[0].buffer]
        if kept.batched is not None:
            moved = kept.batched + len(result.shape) - len(kept.shape)
            return moved if 0 <= moved < len(result.shape) else None
    if all(value.batched is None for value in inputs):
        return None
    shapes = [(value.shape, value.batched) for value in inputs]
    return batched_dimension(record.type, given, shapes, index, result.shape)


def _is_fixed(op: CalledOp, inputs: list[Value]) -> bool:
    """Returns whether the results of an op are compile-time constants."""
    if op.stateful or not inputs:
        return False
    if op.record.type in _OF_SHAPES:
        return all([value.exact for value in inputs])
    return all([value.fixed for value in inputs])


def _facts(record: OpRecord, inputs: list[Value], results: list[Value]) -> None:
    """Computes constant results that shapes and trip counts of later ops depend on."""
    if record.type in op_names.SHAPE_QUERIES:
        for value, result in zip(inputs, results):
            if value.exact:
                result.constant = _shape_fact(record.type, value.shape)
    elif record.type == "InvertPermutation" and inputs[0].constant is not None:
        results[0].constant = np.argsort(inputs[0].constant)
    elif record.type == "Equal":
        last = inputs[1].constant
        # A counter is compared with its last value: true once in N runs.
        if last is not None and last.ndim == 0 and not inputs[0].fixed:
            results[0].every = int(last) + 1


def _shape_fact(op_type: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the result of an op that returns the shape of its operand."""
    if op_type == "Size":
        return np.asarray(math.prod(shape))
    return np.asarray(len(shape) if op_type == "Rank" else shape, np.int64)
