"""`Graph`: ops and tensors, with inputs and outputs; the module `popxl.graph`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.popxl import context
from tensorflow_ipu.frontends.popxl.core import sites
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind
from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Ir

__all__ = ["Graph"]


class Graph:
    """A list of ops with the tensors that they make, some of which are inputs and outputs.

    In `with graph:` it is the current graph, which ops are added to.

    Attributes:
        ops: Its ops, in the order of their creation.
        call_sites: The ops of other graphs that run it.
        can_be_differentiated: Whether autodiff may make its gradient graph for a graph that calls
            it.
    """

    ops: list[Op]
    call_sites: list[Op]
    can_be_differentiated: bool
    _ir: Ir
    _id: str
    _tensors: dict[str, Tensor]
    _inputs: list[Tensor]
    _outputs: list[Tensor]
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
        graph = object.__new__(cls)
        graph.ops = []
        graph.call_sites = []
        graph.can_be_differentiated = True
        graph._ir = ir
        graph._id = id
        graph._tensors = {}
        graph._inputs = []
        graph._outputs = []
        graph._hooks = {}
        return graph

    def __repr__(self) -> str:
        return f"Graph[{self._id or 'main'} {len(self.ops)} ops]"

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
        return hash((self._id, self._ir.id))

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, Tensor):
            raise TypeError(f"Value must be of type popxl.Tensor. Received: {type(value)}")
        return value.ir is self._ir and value.id in self._tensors

    @property
    def ir(self) -> Ir:
        """The Ir that it is in."""
        return self._ir

    @property
    def main_graph(self) -> Graph:
        """The main graph of its Ir."""
        return self._ir.main_graph

    @property
    def id(self) -> str:
        """Its name, unique in the Ir; empty for the main graph."""
        return self._id

    @property
    def name(self) -> str:
        """The same as `id`."""
        return self._id

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Its inputs, in order."""
        return tuple(self._inputs)

    @property
    def inputs_by_name(self) -> dict[str, Tensor]:
        """Its inputs by their names."""
        return {tensor.name: tensor for tensor in self._inputs}

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Its outputs, in order. Autodiff adds those that the gradient needs."""
        return tuple(self._outputs)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All its tensors, in the order of their creation."""
        return tuple(self._tensors.values())

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables."""
        return tuple(t for t in self._tensors.values() if isinstance(t, Variable))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Its constants."""
        return tuple(t for t in self._tensors.values() if isinstance(t, Constant))

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        """The graphs that its ops run, each once."""
        return tuple(dict.fromkeys(graph for op in self.ops for graph in op.called))

    def get_tensor(self, tensor_id: str) -> Tensor:
        """Returns the tensor with an id.

        Args:
            tensor_id: the id.

        Raises:
            popart.popart_exception: If there is none.
        """
        if tensor_id not in self._tensors:
            raise popart_exception(f"No tensor {tensor_id!r} in the graph {self._id or 'main'!r}.")
        return self._tensors[tensor_id]

    def register_op_created_hook(self, fn: Callable[[Op], Any]) -> int:
        """Asks for a call after each op that is created in this graph.

        Args:
            fn: takes the op.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        handle = self._ir.next_number("hook")
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

    def new_id(self, name: str | None) -> str:
        """Returns an id for a new tensor.

        Args:
            name: what it is called; "t" by default.
        """
        parts = [*([self._id] if self._id else []), *context.current_scopes(), name or "t"]
        return self.unique_id("/".join(parts))

    def unique_id(self, wanted: str) -> str:
        """Returns an id that no tensor has: that which is wanted, or one like it."""
        found = wanted
        while found in self._tensors:
            found = f"{wanted}__t{self._ir.next_number('tensor')}"
        return found

    def add_tensor(self, tensor: Any) -> Any:
        """Enters a new tensor, and returns it."""
        self._tensors[tensor.id] = tensor
        return tensor

    def remove_tensor(self, tensor: Tensor) -> None:
        """Forgets a tensor that goes to another graph."""
        del self._tensors[tensor.id]

    def add_input(self, tensor: Tensor) -> Tensor:
        """Makes a new tensor the next input, and returns it."""
        self._inputs.append(tensor)
        return tensor

    def sort_inputs(self, order: Sequence[Tensor]) -> None:
        """Puts the inputs of a graph that nothing calls yet into another order."""
        self._inputs = list(order)

    def add_output(self, tensor: Tensor) -> None:
        """Makes a tensor the next output.

        Raises:
            ValueError: If it is in another graph, or an output already.
        """
        if tensor not in self:
            raise ValueError(f"{tensor!r} is not in the current Graph, {self!r}.")
        if tensor in self._outputs:
            raise ValueError(f"{tensor!r} is an output of {self!r} already.")
        self._outputs.append(tensor)

    def remove_outputs(self, tensors: Iterable[Tensor]) -> None:
        """Makes tensors no outputs of a graph that nothing calls yet.

        Args:
            tensors: outputs of the graph.

        Raises:
            ValueError: If one is no output, or the graph is called.
        """
        if self.call_sites:
            raise ValueError(f"{self!r} is called already, so its outputs cannot be removed.")
        for tensor in tensors:
            self._outputs.remove(tensor)

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
        self._ir.check_is_open()
        op = Op(
            id=self._ir.next_number("op", 100),
            kind=kind,
            graph=self,
            inputs=list(inputs),
            attributes=attributes,
            scopes=context.current_scopes(),
            ipu=context.current_ipu(),
            tile_set=context.current_tile_set(),
            execution_context=context.current_execution_context(),
            site=sites.users_line(),
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
        for hook in tuple(self._hooks.values()):
            hook(op)
        return op

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


def reachable(graph: Graph) -> list[Graph]:
    """Returns a graph and all that it calls, directly or not, each once."""
    found = [graph]
    for caller in found:  # grows meanwhile
        found.extend(
            callee for callee in caller.called_graphs if not any(callee is g for g in found)
        )
    return found


def storage_of(tensor: Tensor) -> list[Tensor]:
    """Returns the tensors with storage of their own whose storage a tensor shares."""
    if not tensor.sources:
        return [tensor]
    roots = itertools.chain.from_iterable(storage_of(source) for source in tensor.sources)
    return list(dict.fromkeys(roots))
