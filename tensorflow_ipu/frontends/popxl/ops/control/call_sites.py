"""`CallSiteInfo`: which tensors of a graph and of one that it calls belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.tensor import Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.graph import Graph


class CallSiteInfo:
    """What is known of a call of a graph."""

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
        """Lets what the graph writes into an input change the tensor that is passed in.

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
