"""Calls of graphs, their arguments, and call sites' information."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl import building, context, utils
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ir import Graph, Op
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike, constant

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering


# For an input that is left out.
_NOTHING = object()


def bind(
    graph: Graph, inputs: Sequence[Any], by_input: Mapping[Tensor, Any], check: bool, role: str = ""
) -> list[Tensor]:
    """Returns the tensor of the current graph for each input of a graph.

    Args:
        graph: the graph that is called.
        inputs: values by position, with iterables of values among them.
        by_input: values by input of the graph.
        check: whether inputs without a value are refused; else they are zero.
        role: the role of the graph in the op, for errors.

    Raises:
        ValueError: If there are too many inputs or too few, or tensors are in other graphs.
        TypeError: If a value cannot become a tensor.
        popart.popart_exception: If shape or type of a tensor is not that of the input.
    """
    positional = list(_flat(inputs))
    if len(positional) > len(graph.inputs):
        raise ValueError(
            f"Too many inputs have been provided{role}: {len(positional)} for the "
            f"{len(graph.inputs)} inputs of {graph!r}."
        )
    known = set(graph.inputs)
    bound: dict[Tensor, Any] = dict(zip(graph.inputs, positional))
    for tensor, value in by_input.items():
        if not isinstance(tensor, Tensor) or tensor not in known:
            raise ValueError(
                f"{tensor!r} is not in the called graph, {graph!r}, as one of its inputs: "
                f"{list(graph.inputs)}"
            )
        if tensor in bound:
            raise ValueError(
                f"Graph input tensor is specified twice: {tensor!r}, by position and in the "
                "dictionary of inputs."
            )
        bound[tensor] = value
    if check:
        _check_complete(graph, bound, role)
    return [_as_input(tensor, bound.get(tensor, _NOTHING)) for tensor in graph.inputs]


def _flat(inputs: Iterable[Any]) -> Iterable[Any]:
    """Yields values, flattening iterables by one level."""
    for value in inputs:
        if isinstance(value, (Tensor, str)) or not isinstance(value, Iterable):
            yield value
        elif hasattr(value, "shape") and not value.shape:
            yield value
        else:
            yield from value


def _check_complete(graph: Graph, bound: Mapping[Tensor, Any], role: str) -> None:
    """Refuses calls that leave out inputs."""
    missing = [tensor for tensor in graph.inputs if tensor not in bound]
    if missing:
        header = ("input", "shape", "dtype")
        rows = [(tensor.name, tensor.shape, tensor.dtype.name) for tensor in missing]
        known = [(tensor.name, value) for tensor, value in bound.items()]
        raise ValueError(
            f"Not enough inputs have been provided{role}: {len(bound)} of {len(graph.inputs)}.\n"
            f"Missing:\n{utils.table_to_string([header, *rows])}"
            f"Connected:\n{utils.table_to_string([('input', 'tensor'), *known])}"
        )


def _as_input(wanted: Tensor, value: Any) -> Tensor:
    """Returns a tensor for an input."""
    current = context.get_current_graph()
    if value is _NOTHING:
        value = constant(np.zeros(wanted.shape, wanted.dtype.as_numpy()), wanted.dtype)
    if not isinstance(value, Tensor):
        value = _as_constant(wanted, value)
    if value.graph is not current:
        raise ValueError(f"{value!r} is not in parent graph {current!r}, but in {value.graph!r}.")
    same = (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
    if not same or value.meta_shape != wanted.meta_shape:
        raise popart_exception(
            f"The tensor {value!r} does not match callee input tensor {wanted!r}: shape, type and "
            "meta shape must be the same."
        )
    return value


def _as_constant(wanted: Tensor, value: Any) -> Tensor:
    """Returns a constant of the type of an input."""
    try:
        if value is None or isinstance(value, str):
            raise TypeError("it is no number or array")
        array = utils.to_numpy(value, wanted.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"The value {value!r} for {wanted!r} could not be coerced into a tensor: {error}"
        ) from error
    return constant(array, wanted.dtype)


class CallSiteInfo:
    """Operands, results and callee of one call of a graph."""

    def __init__(self, op: Op) -> None:
        """Describes a call.

        Args:
            op: the op that calls.
        """
        self._op = op

    def __repr__(self) -> str:
        return f"CallSiteInfo[{self._op!r} of {self.called_graph!r}]"

    @property
    def op(self) -> Op:
        """The op that calls."""
        return self._op

    @property
    def called_graph(self) -> Graph:
        """The graph that is called."""
        return self._op.called[0]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that are passed in."""
        return tuple(self._op.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that come out; those that autodiff adds, too."""
        return tuple(self._op.outputs)

    def parent_input(self, idx: int) -> Tensor:
        """Returns the tensor that is passed in at a position of the op.

        Args:
            idx: the position.

        Raises:
            IndexError: If there is none.
        """
        return _at(self.inputs, idx, "input")

    def parent_output(self, idx: int) -> Tensor:
        """Returns the tensor that comes out at a position of the op.

        Args:
            idx: the position.

        Raises:
            IndexError: If there is none.
        """
        return _at(self.outputs, idx, "output")

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Returns the tensor outside that belongs to an input or output of the graph.

        Args:
            graph_tensor: the input or output.

        Raises:
            ValueError: If it is neither.
        """
        graph = self.called_graph
        position = _position(graph_tensor, graph.inputs)
        if position is not None:
            return self.parent_input(self.graph_to_parent_input_index(position))
        position = _position(graph_tensor, graph.outputs)
        if position is not None:
            return self.parent_output(self.graph_to_parent_output_index(position))
        raise ValueError(
            f"{graph_tensor!r} is not an input or output of the called graph, {graph!r}."
        )

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the first input of the graph that a tensor is passed in for.

        Args:
            parent_tensor: the tensor.

        Raises:
            ValueError: If it is not passed in.
        """
        position = self._position_of(parent_tensor)
        return self.called_graph.inputs[self.parent_to_graph_input_index(position)]

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of the op for one of the graph.

        Args:
            idx: the position.

        Raises:
            IndexError: If there is none.
        """
        return _checked(self.inputs, idx, "input")

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of the graph for one of the op.

        Args:
            idx: the position.

        Raises:
            IndexError: If there is none.
        """
        return _checked(self.inputs, idx, "input")

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Returns the position among the outputs of the op for one of the graph.

        Args:
            idx: the position.

        Raises:
            IndexError: If there is none.
        """
        return _checked(self.outputs, idx, "output")

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Returns the position among the outputs of the graph for one of the op.

        Args:
            idx: the position.

        Raises:
            IndexError: If there is none.
        """
        return _checked(self.outputs, idx, "output")

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Marks an operand as modified by the called graph.

        Args:
            parent_tensor: the tensor.
            infer_modified_regions: whether only what the graph writes counts as modified. That is
                always so here.

        Raises:
            ValueError: If it is not passed in.
        """
        self._op.modified.add(self._position_of(parent_tensor))

    def _position_of(self, parent_tensor: Tensor) -> int:
        if parent_tensor not in self.inputs:
            raise ValueError(f"{parent_tensor!r} is not a parent graph input of {self!r}.")
        return self.inputs.index(parent_tensor)


def _position(tensor: Tensor, tensors: Sequence[Tensor]) -> int | None:
    """Returns the first position of a tensor; there is one object for each, so this is fast."""
    identities = list(map(id, tensors))
    return identities.index(id(tensor)) if id(tensor) in identities else None


def _checked(tensors: Sequence[Tensor], index: int, what: str) -> int:
    _at(tensors, index, what)
    return index


def _at(tensors: Sequence[Tensor], index: int, what: str) -> Tensor:
    if not 0 <= index < len(tensors):
        raise IndexError(f"There is no {what} {index}: the op has {len(tensors)}.")
    return tensors[index]


def _lower(lowering: GraphLowering, op: Op) -> None:
    """Calls the function of the graph."""
    (graph,) = op.called
    function = lowering.program.function(graph)
    inputs = lowering.read_inputs(op)
    with lowering.effects_of(function.has_effects) as done:
        outputs, modified, last = function.call(inputs)
        done.append(last)
    lowering.define_outputs(op, [*outputs, *(modified.get(i, inputs[i]) for i in op.writes)])


def _spec(specs: shapes.Specs, graph: Graph) -> list[TensorSpec]:
    return [tensor.spec for tensor in graph.outputs]


CALL = register(OpKind("Call", _spec, lower=_lower))


def call(
    graph: Graph,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Calls a graph: its inputs are copied in, and its outputs out.

    Args:
        graph: the graph.
        *inputs: the arguments, in the order of its inputs; arrays and numbers become constants.
        inputs_dict: the other arguments, by input of the graph.

    Returns:
        The outputs.

    Raises:
        ValueError: If there are too many inputs or too few, or tensors are in other graphs.
        TypeError: If a value cannot become a tensor.
        popart.popart_exception: If shape or type of a tensor is not that of the input.
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Calls a graph as `call` does.

    Args:
        graph: the graph.
        *inputs: the arguments, in the order of its inputs.
        inputs_dict: the other arguments, by input of the graph.
        check_inputs: whether inputs without a value are refused; else they are zero.

    Returns:
        What is known of the call; its `outputs` are those of the call.

    Raises:
        ValueError: As `call` does.
        TypeError: As `call` does.
        popart.popart_exception: As `call` does.
    """
    passed = bind(graph, inputs, inputs_dict or {}, check_inputs)
    names = [tensor.name for tensor in graph.outputs]
    specs = _spec([], graph)
    op = building.add_op(CALL, passed, names, specs, [graph], {"graph": graph})
    op.modified.update(i for i, tensor in enumerate(graph.inputs) if tensor.by_ref)
    return CallSiteInfo(op)


def add_output(op: Op, output: Tensor) -> Tensor:
    """Gives a call one more output, for a tensor that became an output of its graph.

    Args:
        op: the call.
        output: the output of the graph.
    """
    number = op.graph.ir.next_number("tensor")
    return op.graph.add_op_output(op, f"autodiff_output__t{number}", output.spec)
