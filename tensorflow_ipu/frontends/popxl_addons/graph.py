"""Graphs with named inputs, bound to values; the modules `graph` and `graph_common`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops, transforms
from tensorflow_ipu.frontends.popxl.transforms import GradGraphInfo
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors, TensorMap, to_mapping

__all__ = [
    "BoundGraph",
    "CalledGraphsGradInfo",
    "CalledGraphsGradInfoLike",
    "GradGraphInfoLike",
    "GraphLike",
    "GraphWithNamedArgs",
]


def schedule(graph: popxl.Graph, names: Mapping[popxl.Tensor, str]) -> str:
    """Lists the ops of a graph, one a line, with shapes and types of operands and results.

    Args:
        graph: the graph.
        names: the names of inputs.
    """
    numbers: dict[popxl.Tensor, int] = {}

    def number(tensor: popxl.Tensor) -> str:
        return f"%{numbers.setdefault(tensor, len(numbers) + 1)}"

    def typed(tensors: Iterable[popxl.Tensor]) -> str:
        return ", ".join(f"{number(t)} [{t.shape} {t.dtype.name}]" for t in tensors)

    inputs = [
        f"{names[tensor]}={number(tensor)}" if tensor in names else number(tensor)
        for tensor in graph.inputs
    ]
    lines = []
    for op in graph.ops:
        called = "".join(f"({callee.id})" for callee in op.called)
        lines.append(f"    {op!r}{called} ({typed(op.inputs)}) -> ({typed(op.outputs)})")
    outputs = ", ".join(number(tensor) for tensor in graph.outputs)
    head = f"Graph : {graph.name}\n  ({', '.join(inputs)}) -> ({outputs}) {{"
    return "\n".join([head, *lines, "  }"])


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
            *tensors: the first arguments, in the order of its inputs.
            args: other arguments, by input; they replace bound tensors.

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
            *tensors: the first arguments, in the order of its inputs.
            args: other arguments, by input; they replace bound tensors.

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
            *targs: the first arguments, in the order of its inputs.
            args: other arguments, by input.
            outs: the tensors outside for its outputs; outputs are left out by default.
        """
        first = dict(zip(self.graph.inputs, targs))
        last = dict(zip(self.graph.outputs, outs or ()))
        return {**self.args, **(args or {}), **first, **last}


GradInfo = transforms.GradGraphInfo


# By graph, or graph with names, its gradient graph, likewise.
Infos = Mapping[Any, Any]


_METHODS = ("auto", "build_grad", "autodiff")


class _Module(Protocol):
    """A module that may make gradient graphs (`popxl_addons.Module`)."""

    @property
    def implements_grad_graph(self) -> bool:
        """Whether it does."""

    def create_grad_graph(
        self,
        fwd_graph: GraphWithNamedArgs,
        grads_provided: Sequence[popxl.Tensor] | None = None,
        grads_required: Sequence[popxl.Tensor] | None = None,
    ) -> GraphWithNamedArgs:
        """Makes the gradient graph of a graph that it has made."""


class GraphWithNamedArgs:
    """A graph with names for the inputs that are variables.

    Attributes:
        graph: The graph.
        args: Its inputs that are variables, by name.
        from_module: The module that made it, if any.
        aux: What `build` of that module saved for `build_grad`, by key.
        called_graphs_grad_info: Gradient graphs of graphs that it calls.
        autodiff_applied: Whether its gradient graph was made.
    """

    graph: popxl.Graph
    args: NamedTensors
    from_module: _Module | None
    aux: dict[Any, Any]
    called_graphs_grad_info: dict[popxl.Graph, GradInfo]
    autodiff_applied: bool

    def __init__(
        self,
        graph: popxl.Graph,
        args: NamedTensors | None = None,
        grad_graph_info: GradInfo | None = None,
        from_module: _Module | None = None,
        aux: Mapping[Any, Any] | None = None,
        called_graphs_grad_info: Infos | None = None,
    ) -> None:
        """Gives the inputs of a graph names.

        Args:
            graph: the graph.
            args: its inputs that are variables, by name.
            grad_graph_info: for a gradient graph, what its inputs and outputs stand for.
            from_module: the module that made it, if any.
            aux: the values that `build` of that module saved for `build_grad`, by key.
            called_graphs_grad_info: gradient graphs of graphs that it calls.
        """
        self.graph = graph
        self.args = NamedTensors() if args is None else args
        self.called_graphs_grad_info = _infos(called_graphs_grad_info)
        self.from_module = from_module
        self.aux = dict(aux or {})
        self.autodiff_applied = False
        self._grad_graph_info = grad_graph_info

    @classmethod
    def from_grad_graph(
        cls, grad_graph_info: GradInfo, args: NamedTensors | None = None
    ) -> GraphWithNamedArgs:
        """Gives the inputs of a gradient graph names.

        Args:
            grad_graph_info: the result of `popxl.transforms.autodiff`.
            args: its inputs that are variables, by name.
        """
        return cls(grad_graph_info.graph, args, grad_graph_info)

    def __repr__(self) -> str:
        return f"GraphWithNamedArgs[{self.graph!r} {self.args.keys_flat()}]"

    @property
    def grad_graph_info(self) -> GradInfo:
        """The connections of a gradient graph's inputs and outputs.

        Raises:
            AttributeError: If it is no gradient graph.
        """
        if self._grad_graph_info is None:
            raise AttributeError(
                f"Not a gradient graph: {self.graph!r}. `addons.autodiff` returns gradient graphs."
            )
        return self._grad_graph_info

    @grad_graph_info.setter
    def grad_graph_info(self, info: GradInfo) -> None:
        self._grad_graph_info = info

    def copy(self) -> GraphWithNamedArgs:
        """Returns another object for the same graph."""
        new = GraphWithNamedArgs(
            self.graph,
            self.args.copy(),
            self._grad_graph_info,
            self.from_module,
            self.aux,
            self.called_graphs_grad_info,
        )
        new.autodiff_applied = self.autodiff_applied
        return new

    def bind(self, args: NamedTensors | None = None) -> BoundGraph:
        """Returns the graph with tensors for its variables.

        Args:
            args: tensors by name; those with names that the graph does not have are left out.
        """
        return BoundGraph(
            self.graph, to_mapping(self.args, NamedTensors() if args is None else args)
        )

    def call(
        self, *tensors: popxl.tensor.TensorLike, args: TensorMap | None = None
    ) -> tuple[popxl.Tensor, ...]:
        """Calls the graph.

        Args:
            *tensors: the first arguments, in the order of its inputs.
            args: the other arguments, by input of the graph.

        Returns:
            The outputs.

        Raises:
            ValueError: As `popxl.ops.call` does.
        """
        return BoundGraph(self.graph).call(*tensors, args=args)

    def call_with_info(
        self, *tensors: popxl.tensor.TensorLike, args: TensorMap | None = None
    ) -> ops.CallSiteInfo:
        """Calls the graph.

        Args:
            *tensors: the first arguments, in the order of its inputs.
            args: the other arguments, by input of the graph: for a gradient graph
                `grad_graph_info.inputs_dict(...)`.

        Returns:
            What is known of the call.

        Raises:
            ValueError: As `popxl.ops.call` does.
        """
        return BoundGraph(self.graph).call_with_info(*tensors, args=args)

    def autodiff(
        self,
        grads_provided: Sequence[popxl.Tensor] | None = None,
        grads_required: Sequence[popxl.Tensor] | None = None,
        called_graphs_grad_info: Infos | None = None,
        method: str = "auto",
        force: bool = False,
    ) -> GraphWithNamedArgs:
        """Makes the gradient graph.

        Args:
            grads_provided: tensors whose gradients are passed in; the outputs by default.
            grads_required: tensors whose gradients are returned; the inputs by default.
            called_graphs_grad_info: gradient graphs of graphs that it calls, in addition to those
                that the graph knows. An empty mapping leaves those out.
            method: "build_grad" for that of the module, "autodiff" for the derived one, "auto" for
                that of the module if it has one.
            force: whether it may be made once more.

        Raises:
            Exception: If it was made already, or as `build_grad` does.
            ValueError: If the method is unknown, or there is no module with a `build_grad`.
        """
        if method not in _METHODS:
            raise ValueError(f"method must be one of {_METHODS}. Received: {method!r}")
        module = self.from_module
        has_own = module is not None and module.implements_grad_graph
        if method == "build_grad" and not has_own:
            raise ValueError(
                "method='build_grad' needs a graph for which `from_module` is specified, and a "
                f"module that implements `build_grad`. Received: {self!r}, from_module={module!r}"
            )
        if self.autodiff_applied and not force:
            raise Exception(
                f"Autodiff has already been applied to {self!r}. Pass force=True to make another "
                "gradient graph."
            )
        if module is not None and has_own and method != "autodiff":
            made = module.create_grad_graph(self, grads_provided, grads_required)
        else:
            infos = _infos(called_graphs_grad_info)
            if infos or called_graphs_grad_info is None:
                infos = {**self.called_graphs_grad_info, **infos}
            made = differentiate(self.graph, grads_provided, grads_required, infos)
        self.autodiff_applied = True
        return made

    def print_schedule(self) -> str:
        """Returns the ops of the graph as text, one a line."""
        names = {tensor: name for name, tensor in self.args.to_dict().items()}
        return schedule(self.graph, names)


def _infos(infos: Infos | None) -> dict[popxl.Graph, GradInfo]:
    """Returns gradient graphs by graph, without names."""
    return {
        graph.graph if isinstance(graph, GraphWithNamedArgs) else graph: (
            info.grad_graph_info if isinstance(info, GraphWithNamedArgs) else info
        )
        for graph, info in (infos or {}).items()
    }


def differentiate(
    graph: popxl.Graph,
    grads_provided: Sequence[popxl.Tensor] | None,
    grads_required: Sequence[popxl.Tensor] | None,
    called_graphs_grad_info: Infos | None,
) -> GraphWithNamedArgs:
    """Makes the gradient graph of a graph.

    Args:
        graph: the graph.
        grads_provided: tensors whose gradients are passed in; the outputs by default.
        grads_required: tensors whose gradients are returned; the inputs by default.
        called_graphs_grad_info: gradient graphs of graphs that it calls.
    """
    info: Any = transforms.autodiff(graph, grads_provided, grads_required, called_graphs_grad_info)
    return GraphWithNamedArgs.from_grad_graph(info)


GraphLike = Union[popxl.Graph, GraphWithNamedArgs]


GradGraphInfoLike = Union[GradGraphInfo, GraphWithNamedArgs]


CalledGraphsGradInfo = Mapping[popxl.Graph, GradGraphInfo]


CalledGraphsGradInfoLike = Mapping[GraphLike, GradGraphInfoLike]
