"""Passes for synthetic data: values of parameters that do not move, and indices within range."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2
from tensorflow.python.framework import tensor_util

from tensorflow_ipu.compiler import synthetic_data
from tensorflow_ipu.compiler.ir.function_nodes import (
    FunctionEditor,
    data_inputs,
    input_types,
    replace_data_inputs,
)
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.util import op_names


def replace_parameters(program: Program, target: Target) -> None:
    """Replaces the user's variables by variables of the program with synthetic values.

    Applies where TF_POPLAR_FLAGS says that parameters do not move, and has an initializer for them
    (`--synthetic_data_initializer`). Without an initializer their contents would be undefined; then
    they keep the values of the host.

    Before: any legal Program. After: no node uses a variable of the user. Values that the program
    writes to its own variables are lost at the end of the run.
    """
    initializer = target.flags.synthetic_data_initializer
    if not initializer or not target.flags.synthetic(SyntheticDataCategory.Parameters):
        return
    entry = program.functions[program.entry]
    names = [argument.name for argument in entry.signature.input_arg]
    for name, argument in zip(names, target.arguments):
        if argument.is_variable:
            _replace(entry, name, argument, initializer)


def _replace(
    function: function_pb2.FunctionDef, name: str, argument: Argument, initializer: str
) -> None:
    """Replaces an argument of a function by a variable of the program."""
    own = _add_variable(function, f"{name}/synthetic", argument, initializer)
    for node in function.node_def:
        for index, reference in enumerate(node.input):
            if reference == name:
                node.input[index] = own
    for result, reference in function.ret.items():
        if reference == name:
            function.ret[result] = own


def _add_variable(
    function: function_pb2.FunctionDef, name: str, argument: Argument, initializer: str
) -> str:
    """Adds a variable with its made-up value, and returns its handle."""
    dtype = argument.dtype.as_datatype_enum
    variable = function.node_def.add(name=name, op=op_names.PROGRAM_VARIABLE)
    variable.attr["dtype"].type = dtype
    variable.attr["shape"].shape.CopyFrom(argument.shape.as_proto())
    value = function.node_def.add(name=f"{name}/value", op="Const")
    value.attr["dtype"].type = dtype
    shape = tuple(argument.shape.as_list())
    array = synthetic_data.values(argument.dtype, shape, initializer)
    value.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(array, argument.dtype))
    handle = f"{name}:handle:0"
    assign = function.node_def.add(
        name=f"{name}/assign", op=op_names.ASSIGN, input=[handle, f"{value.name}:output:0"]
    )
    assign.attr["dtype"].type = dtype
    filled = function.node_def.add(
        name=f"{name}/filled", op="Identity", input=[handle, f"^{assign.name}"]
    )
    filled.attr["T"].type = types_pb2.DT_RESOURCE
    return f"{filled.name}:output:0"


# --- Pass: reduces synthetic indices and labels to the range that they index ---

_MADE_UP = (
    SyntheticDataCategory.Infeed,
    SyntheticDataCategory.Parameters,
    SyntheticDataCategory.HostEmbedding,
)
_INT = types_pb2.DT_INT32


def limit_indices(program: Program, target: Target) -> None:
    """Reduces synthetic indices modulo the size that they index.

    Applies where TF_POPLAR_FLAGS makes data synthetic. Synthetic integers take any value of their
    type. The device does not check indices and labels; the kernels of the host do, and would refuse
    them.

    Before: any legal Program. After: one whose ops of `_LIMITS` get indices in their range.
    """
    made_up = any(target.flags.synthetic(category) for category in _MADE_UP)
    if not target.flags.synthetic_data_initializer or not made_up:
        return
    for function in program.functions.values():
        limits = _Limits(FunctionEditor(function))
        for node in list(function.node_def):
            if node.op in _LIMITS and OUTSIDE_ATTRIBUTE not in node.attr:
                limits.impose(node)


class _Limits:
    """Rewriter that adds nodes to keep indices in their range.

    Args:
        editor: of the function that they are in.
    """

    def __init__(self, editor: FunctionEditor) -> None:
        self._editor = editor
        self._node: node_def_pb2.NodeDef

    def impose(self, node: node_def_pb2.NodeDef) -> None:
        """Keeps the indices of a node in range."""
        self._node = node
        limited = inputs = data_inputs(node)
        for position, limit_of in _LIMITS[node.op]:
            kind = self._type(position)
            limit = limit_of(self, inputs)
            if kind != _INT:
                limit = self._add("Cast", [limit], "y", SrcT=_INT, DstT=kind)
            limited = list(limited)
            limited[position] = self._add("FloorMod", [inputs[position], limit], "z", T=kind)
        if node.op == "IpuCtcLoss":
            limited[1] = self._but_blank(limited[1])
        replace_data_inputs(node, limited)

    def along_axis(self, inputs: list[str]) -> str:
        """Returns the size of a tensor along the axis that is the third input."""
        axis = inputs[2]
        if self._type(2) != _INT:
            axis = self._add("Cast", [axis], "y", SrcT=self._type(2), DstT=_INT)
        rank = self._add("Rank", [inputs[0]], "output", T=self._type(0))
        positive = self._add("FloorMod", [axis, rank], "z", T=_INT)
        return self._item(self._shape(inputs[0]), positive)

    def classes(self, inputs: list[str]) -> str:
        """Returns the number of classes of logits."""
        return self._item(self._shape(inputs[0]), self._number(1))

    def rows(self, inputs: list[str]) -> str:
        """Returns the number of rows of a variable."""
        shape = self._add("VariableShape", [inputs[0]], "output", out_type=_INT)
        attributes = self._node.attr
        batch_dims = attributes["batch_dims"].i if "batch_dims" in attributes else 0
        return self._item(shape, self._number(batch_dims))

    def sampled(self, inputs: list[str]) -> str:
        """Returns the number of classes that a candidate sampler draws from."""
        del inputs
        return self._number(self._node.attr["range_max"].i)

    def segments(self, inputs: list[str]) -> str:
        """Returns the number of segments, which is the third input."""
        if self._type(2) == _INT:
            return inputs[2]
        return self._add("Cast", [inputs[2]], "y", SrcT=self._type(2), DstT=_INT)

    def labels_but_blank(self, inputs: list[str]) -> str:
        """Returns the number of classes of sequences `[time, batch, classes]` without the blank."""
        classes = self._item(self._shape(inputs[0]), self._number(2))
        return self._add("Sub", [classes, self._number(1)], "z", T=_INT)

    def label_lengths(self, inputs: list[str]) -> str:
        """Returns one more than the longest sequence of labels, `[batch, labels]`."""
        longest = self._item(self._shape(inputs[1], 1), self._number(1))
        return self._add("AddV2", [longest, self._number(1)], "z", T=_INT)

    def data_lengths(self, inputs: list[str]) -> str:
        """Returns one more than the longest of the sequences `[time, batch, classes]`."""
        longest = self._item(self._shape(inputs[0]), self._number(0))
        return self._add("AddV2", [longest, self._number(1)], "z", T=_INT)

    def _but_blank(self, labels: str) -> str:
        """Returns labels shifted by one where they are past the blank label."""
        blank = self._number(self._node.attr["blank_index"].i)
        past = self._add("GreaterEqual", [labels, blank], "z", T=_INT)
        more = self._add("Cast", [past], "y", SrcT=types_pb2.DT_BOOL, DstT=_INT)
        return self._add("AddV2", [labels, more], "z", T=_INT)

    def of_tensor(self, inputs: list[str]) -> str:
        """Returns the sizes of the dimensions of a tensor that the last dimension indexes."""
        return self._first(self._shape(inputs[0]), inputs[1], 1)

    def of_variable(self, inputs: list[str]) -> str:
        """Returns the sizes of the dimensions of a variable that the last dimension indexes."""
        shape = self._add("VariableShape", [inputs[0]], "output", out_type=_INT)
        return self._first(shape, inputs[1], 1)

    def of_shape(self, inputs: list[str]) -> str:
        """Returns the sizes of the dimensions of a shape, the third input, that are indexed."""
        shape = inputs[2]
        if self._type(2) != _INT:
            shape = self._add("Cast", [shape], "y", SrcT=self._type(2), DstT=_INT)
        return self._first(shape, inputs[0], 0)

    def _first(self, shape: str, indices: str, position: int) -> str:
        """Returns as many entries of a shape as the last dimension of some indices has."""
        of_indices = self._shape(indices, position)
        length = self._add("Size", [of_indices], "output", T=_INT, out_type=_INT)
        last = self._add("Sub", [length, self._number(1)], "z", T=_INT)
        count = self._item(of_indices, last)
        every = self._add("Range", [self._number(0), count, self._number(1)], "output", Tidx=_INT)
        return self._item(shape, every)

    def _shape(self, reference: str, position: int = 0) -> str:
        kind = self._type(position)
        return self._add("Shape", [reference], "output", T=kind, out_type=_INT)

    def _item(self, shape: str, positions: str) -> str:
        inputs = [shape, positions, self._number(0)]
        return self._add("GatherV2", inputs, "output", Tparams=_INT, Tindices=_INT, Taxis=_INT)

    def _number(self, value: int) -> str:
        node = self._editor.add(f"{self._node.name}/limit", "Const", [], dtype=_INT)
        node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value, dtype="int32"))
        return f"{node.name}:output:0"

    def _type(self, position: int) -> int:
        return input_types(self._node)[position]

    def _add(self, op: str, inputs: list[str], result: str, **attributes: int) -> str:
        node = self._editor.add(f"{self._node.name}/limit", op, inputs, **attributes)
        return f"{node.name}:{result}:0"


_Limit = Callable[[_Limits, list[str]], str]
# Op -> position of its indices, and their upper bound.
_ONE: dict[str, tuple[int, _Limit]] = {
    "GatherV2": (1, _Limits.along_axis),
    "GatherNd": (1, _Limits.of_tensor),
    "ResourceGather": (1, _Limits.rows),
    "ResourceGatherNd": (1, _Limits.of_variable),
    "ScatterNd": (0, _Limits.of_shape),
    "SparseSoftmaxCrossEntropyWithLogits": (1, _Limits.classes),
    **{f"{kind}CandidateSampler": (0, _Limits.sampled) for kind in ("Uniform", "LogUniform")},
    "LearnedUnigramCandidateSampler": (0, _Limits.sampled),
    "IpuCandidateSampler": (0, _Limits.sampled),
    **{f"ResourceScatter{kind}": (1, _Limits.rows) for kind in ("Add", "Sub", "Mul", "Update")},
    **{f"ResourceScatter{kind}": (1, _Limits.rows) for kind in ("Div", "Max", "Min")},
    **{f"ResourceScatterNd{kind}": (1, _Limits.of_variable) for kind in ("Add", "Sub", "Update")},
    **{f"TensorScatter{kind}": (1, _Limits.of_tensor) for kind in ("Add", "Sub", "Update")},
    **{f"UnsortedSegment{kind}": (1, _Limits.segments) for kind in ("Sum", "Prod", "Max", "Min")},
}
# Op -> the same for each input that it checks.
_LIMITS: dict[str, list[tuple[int, _Limit]]] = {
    **{op: [limit] for op, limit in _ONE.items()},
    "IpuCtcLoss": [
        (1, _Limits.labels_but_blank),
        (2, _Limits.label_lengths),
        (3, _Limits.data_lengths),
    ],
    "IpuCtcBeamSearch": [(1, _Limits.data_lengths)],
}
