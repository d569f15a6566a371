"""`Graph`: ops with the tensors that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.common import user_frames
from tensorflow_ipu.frontends.popxl import context
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind
from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.graph.contents import GraphContents
from tensorflow_ipu.frontends.popxl.tensor import Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Ir


class Graph(GraphContents):
    """A list of ops with the tensors that they make, some of which are inputs and outputs.

    In `with graph:` it is the current graph, which ops are added to.

    Attributes:
        ops: Its ops, in the order of their creation.
        call_sites: The ops of other graphs that run it.
        can_be_differentiated: Whether autodiff may make its gradient graph for a graph that calls
            it.
        is_gradient: Whether it computes gradients of another graph.
    """

    ops: list[Op]
    call_sites: list[Op]
    can_be_differentiated: bool
    is_gradient: bool
    _hooks: dict[int, Callable[[Op], Any]]

    def __init__(self) -> None:
        raise TypeError(
            "Cannot create a graph using the constructor. Use ir.create_graph or "
            "ir.create_empty_graph."
        )

    @classmethod
    def create(cls, ir: Ir, id: str) -> Graph:  # noqa: A002
        """Makes a graph; for this package only.

        Args:
            ir: the Ir that it is in.
            id: its id, unique in the Ir; empty for the main graph.
        """
        graph: Graph = super().create(ir, id)
        graph.ops = []
        graph.call_sites = []
        graph.can_be_differentiated = True
        graph.is_gradient = False
        graph._hooks = {}
        return graph

    def __repr__(self) -> str:
        return f"Graph[{self.id or 'main'} {len(self.ops)} ops]"

    def __enter__(self) -> Graph:
        context.enter_graph(self)
        return self

    def __exit__(self, *error: Any) -> None:
        context.leave_graph()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            raise TypeError(f"Value must be of type popxl.Graph. Received: {type(other)}")
        return self is other

    def __hash__(self) -> int:
        return hash((self.id, self.ir.id))

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        """The graphs that its ops run, each once."""
        return tuple(dict.fromkeys(graph for op in self.ops for graph in op.called))

    def register_op_created_hook(self, fn: Callable[[Op], Any]) -> int:
        """Asks for a call after each op that is created in this graph.

        Args:
            fn: takes the op.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        handle = self.ir.next_number("hook")
        self._hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends the calls that `register_op_created_hook` asked for.

        Args:
            handle: what that returned.

        Raises:
            ValueError: If there is no such hook.
        """
        if handle not in self._hooks:
            raise ValueError(f"Unknown op created hook: {handle}")
        del self._hooks[handle]

    def remove_outputs(self, tensors: Iterable[Tensor]) -> None:
        """Makes tensors no outputs of a graph that nothing calls yet.

        Args:
            tensors: outputs of the graph.

        Raises:
            ValueError: If one is no output, or the graph is called.
        """
        if self.call_sites:
            raise ValueError(f"{self!r} is called already, so its outputs cannot be removed.")
        super().remove_outputs(tensors)

    def add_op(
        self,
        kind: OpKind,
        inputs: Iterable[Tensor],
        attributes: dict[str, Any],
        names: Sequence[str],
        specs: Sequence[TensorSpec],
        called: Sequence[Graph] = (),
    ) -> Op:
        """Adds an op, with the context in force.

        Args:
            kind: what it is.
            inputs: its inputs, tensors of this graph.
            attributes: what else it is made with.
            names: names of the outputs.
            specs: shapes and types of the outputs.
            called: graphs that it runs.

        Returns:
            The op, which the hooks have seen.
        """
        self.ir.check_is_open()
        op = Op(
            id=self.ir.next_number("op", 100),
            kind=kind,
            graph=self,
            inputs=list(inputs),
            attributes=attributes,
            scopes=context.current_scopes(),
            ipu=context.current_ipu() or 0,
            has_ipu=context.current_ipu() is not None,
            tile_set=context.current_tile_set(),
            execution_context=context.current_execution_context(),
            site=user_frames.users_line(),
            called=tuple(called),
        )
        op.after = context.sequencer().place(op)
        for tensor in dict.fromkeys(op.inputs):
            tensor.consumers.append(op)
        for graph in op.called:
            graph.call_sites.append(op)
        for name, spec in zip(names, specs):
            self.add_op_output(op, name, spec)
        self.ops.append(op)
        self.record_op(op)
        self._show(op)
        return op

    def announce(self, kind: OpKind, parts: Sequence[Op]) -> None:
        """Shows hooks an op that stands for several of the graph; for transforms.

        Args:
            kind: what it is.
            parts: the ops.
        """
        first = parts[0]
        whole = dataclasses.replace(
            first,
            id=self.ir.next_number("op", 100),
            kind=kind,
            inputs=[tensor for part in parts for tensor in part.inputs],
            outputs=[tensor for part in parts for tensor in part.outputs],
            attributes={"parts": tuple(parts)},
            planned=dict(first.planned),
        )
        self._show(whole)

    def _show(self, op: Op) -> None:
        """Calls the hooks of the graph and of the context with a new op."""
        for hook in tuple(self._hooks.values()):
            hook(op)
        context.created(op)

    def add_op_output(self, op: Op, name: str, spec: TensorSpec) -> Tensor:
        """Adds an output to an op, and returns it. The first of a view shares its inputs' storage.

        Args:
            op: an op of this graph.
            name: name of the output.
            spec: shape and type of the output.
        """
        tensor: Tensor = Tensor.create(self, self.new_id(name), spec, op)
        if op.kind.view is not None and not op.outputs:
            tensor.view = op.kind.view([t.spec for t in op.inputs], **op.attributes)
            tensor.sources = tuple(op.inputs[i] for i in tensor.view.of(len(op.inputs)))
        op.outputs.append(tensor)
        self.add_tensor(tensor)
        return tensor
