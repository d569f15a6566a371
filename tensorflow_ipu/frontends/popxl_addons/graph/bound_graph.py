"""`BoundGraph`: a graph with tensors for some of its inputs."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.named_tensors import TensorMap


class BoundGraph:
    """A graph with tensors for some of its inputs, which are passed at each call.

    Attributes:
        graph: The graph.
        args: Tensors by input of the graph.
    """

    graph: popxl.Graph
    args: dict[popxl.Tensor, popxl.Tensor]

    def __init__(self, graph: popxl.Graph, args: TensorMap | None = None) -> None:
        """Binds a graph.

        Args:
            graph: the graph.
            args: tensors by input of the graph.
        """
        self.graph = graph
        self.args = dict(args or {})

    def __repr__(self) -> str:
        return f"BoundGraph[{self.graph!r} {len(self.args)} bound]"

    def bind(self, args: TensorMap) -> BoundGraph:
        """Returns the graph with more tensors bound.

        Args:
            args: tensors by input of the graph.
        """
        return BoundGraph(self.graph, {**self.args, **args})

    def call(
        self, *tensors: popxl.tensor.TensorLike, args: TensorMap | None = None
    ) -> tuple[popxl.Tensor, ...]:
        """Calls the graph.

        Args:
            *tensors: what to pass for its first inputs.
            args: what to pass for others, by input; these come before what is bound.

        Returns:
            The outputs.

        Raises:
            ValueError: As `popxl.ops.call` does.
        """
        return self.call_with_info(*tensors, args=args).outputs

    def call_with_info(
        self, *tensors: popxl.tensor.TensorLike, args: TensorMap | None = None
    ) -> ops.CallSiteInfo:
        """Calls the graph.

        Args:
            *tensors: what to pass for its first inputs.
            args: what to pass for others, by input; these come before what is bound.

        Returns:
            What is known of the call.

        Raises:
            ValueError: As `popxl.ops.call` does.
        """
        passed = {**self.args, **(args or {})}
        return ops.call_with_info(self.graph, *tensors, inputs_dict=passed)

    def subgraph_io_map(
        self,
        *targs: popxl.Tensor,
        args: TensorMap | None = None,
        outs: Iterable[popxl.Tensor] | None = None,
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Returns the tensors outside for the inputs and outputs of the graph.

        Args:
            *targs: what is passed for its first inputs.
            args: what is passed for others, by input.
            outs: what stands for its outputs; outputs are left out by default.
        """
        first = dict(zip(self.graph.inputs, targs))
        last = dict(zip(self.graph.outputs, outs or ()))
        return {**self.args, **(args or {}), **first, **last}
