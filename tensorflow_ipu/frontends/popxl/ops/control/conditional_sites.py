"""`ConditionalSiteInfo`: what is known of a choice between two graphs."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.ops.control.call_sites import CallSiteInfo
from tensorflow_ipu.frontends.popxl.tensor import Tensor


class ConditionalSiteInfo(CallSiteInfo):
    """What is known of a choice between two graphs.

    The inputs of the op are the condition, then those of the one graph, then those of the other.
    """

    @property
    def called_graph(self) -> Any:
        """The two graphs: the one that is called if the condition holds, and the other."""
        return self.op.called

    def _first(self, then_branch: bool) -> int:
        """The position of the first input of a graph."""
        return 1 if then_branch else 1 + len(self.op.called[0].inputs)

    def _branch(self, then_branch: bool) -> Graph:
        return self.op.called[0 if then_branch else 1]

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Returns whether an input of the op is one of the graph for a condition that holds.

        Args:
            idx: its position.

        Raises:
            IndexError: If it is the condition, or there is no such input.
        """
        if not 1 <= idx < len(self.inputs):
            raise IndexError(f"{idx} is not the position of an input of one of the graphs.")
        return idx < self._first(False)

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the position among the inputs of the op for one of a graph.

        Args:
            idx: the position.
            then_branch: whether the graph is the one for a condition that holds.

        Raises:
            IndexError: If there is none.
        """
        if not 0 <= idx < len(self._branch(then_branch).inputs):
            raise IndexError(f"There is no input {idx} of the graph.")
        return self._first(then_branch) + idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of its graph for one of the op.

        Args:
            idx: the position.

        Raises:
            IndexError: If it is the condition, or there is none.
        """
        return idx - self._first(self.is_parent_index_in_then_branch(idx))

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the position among the outputs of the op for one of a graph.

        Args:
            idx: the position.
            then_branch: whether the graph is the one for a condition that holds.

        Raises:
            IndexError: If there is none.
        """
        if not 0 <= idx < len(self.outputs):
            raise IndexError(f"There is no output {idx}.")
        return idx

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the position among the outputs of a graph for one of the op.

        Args:
            idx: the position.
            then_branch: whether the graph is the one for a condition that holds.

        Raises:
            IndexError: If there is none.
        """
        return self.graph_to_parent_output_index(idx, then_branch)

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Returns the tensor outside that belongs to an input or output of one of the graphs.

        Args:
            graph_tensor: the input or output.

        Raises:
            ValueError: If it is neither.
        """
        for then_branch in (True, False):
            graph = self._branch(then_branch)
            if graph_tensor in graph.inputs:
                return self.inputs[self._first(then_branch) + graph.inputs.index(graph_tensor)]
            if graph_tensor in graph.outputs:
                return self.outputs[graph.outputs.index(graph_tensor)]
        raise ValueError(f"{graph_tensor!r} is not an input or output of the called graphs.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the first input of a graph that a tensor is passed in for.

        Args:
            parent_tensor: the tensor.

        Raises:
            ValueError: If it is not passed in.
        """
        if parent_tensor not in self.inputs[1:]:
            raise ValueError(f"{parent_tensor!r} is not a parent graph input of {self!r}.")
        position = 1 + self.inputs[1:].index(parent_tensor)
        graph = self._branch(self.is_parent_index_in_then_branch(position))
        return graph.inputs[self.parent_to_graph_input_index(position)]

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Raises an error: graphs that are chosen do not modify what is passed in.

        Args:
            parent_tensor: a tensor that is passed in.
            infer_modified_regions: whether to find out which part of it.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("A conditional op does not modify the tensors passed in.")
