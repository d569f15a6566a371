"""`GraphContents`: the tensors of a graph, by their ids, its inputs and its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.common import debug_contexts, user_frames
from tensorflow_ipu.frontends.popxl import context
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.graph.graphs import Graph
    from tensorflow_ipu.frontends.popxl.ir import Ir


# What debug information calls PopXL, and the package with the functions that make ops.
_LAYER, _FUNCTIONS = "popxl", "tensorflow_ipu.frontends.popxl.ops"


class GraphContents:
    """The tensors of a graph, some of which are inputs and outputs."""

    _ir: Ir
    _id: str
    _tensors: dict[str, Tensor]
    _inputs: list[Tensor]
    _outputs: list[Tensor]

    @classmethod
    def create(cls, ir: Ir, id: str) -> Any:  # noqa: A002
        """Makes one without tensors.

        Args:
            ir: the Ir that it is in.
            id: its id, unique in the Ir.
        """
        graph = object.__new__(cls)
        graph._ir = ir
        graph._id = id
        graph._tensors = {}
        graph._inputs = []
        graph._outputs = []
        return graph

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

    def new_id(self, name: str | None) -> str:
        """Returns an id for a new tensor.

        Args:
            name: what it is called; "t" by default.
        """
        parts = [*([self._id] if self._id else []), *context.current_scopes(), name or "t"]
        return self.unique_id("/".join(parts))

    def unique_id(self, wanted: str) -> str:
        """Returns an id that no tensor has: that which is wanted, or one like it.

        Args:
            wanted: the id, if it is free.
        """
        found = wanted
        while found in self._tensors:
            found = f"{wanted}__t{self._ir.next_number('tensor')}"
        return found

    def add_tensor(self, tensor: Any) -> Any:
        """Enters a new tensor, and returns it.

        Args:
            tensor: the tensor.
        """
        self._tensors[tensor.id] = tensor
        if debug_contexts.is_recording():
            debug_contexts.record_builder(_LAYER)
            debug_contexts.record(
                _LAYER,
                tensor.id,
                user_frames.users_place(),
                category="tensor",
                tensorId=tensor.id,
                shape=list(tensor.shape),
                elementType=tensor.dtype.name,
            )
        return tensor

    def record_op(self, op: Op) -> None:
        """Adds a new op to the file of debug information, if there is one; for graphs.

        Args:
            op: the op.
        """
        if debug_contexts.is_recording():
            debug_contexts.record_builder(_LAYER)
            debug_contexts.record(
                _LAYER,
                "/".join([*op.scopes, op.kind.name]),
                user_frames.users_place(),
                category="op",
                api=debug_contexts.calling_function(_FUNCTIONS),
                opType=op.kind.name,
                inputs=[tensor.id for tensor in op.inputs],
                outputs=[tensor.id for tensor in op.outputs],
            )

    def remove_tensor(self, tensor: Tensor) -> None:
        """Forgets a tensor that goes to another graph.

        Args:
            tensor: the tensor.
        """
        del self._tensors[tensor.id]

    def add_input(self, tensor: Tensor) -> Tensor:
        """Makes a new tensor the next input, and returns it.

        Args:
            tensor: the tensor.
        """
        self._inputs.append(tensor)
        return tensor

    def sort_inputs(self, order: Sequence[Tensor]) -> None:
        """Puts the inputs of a graph that nothing calls yet into another order.

        Args:
            order: all inputs.
        """
        self._inputs = list(order)

    def add_output(self, tensor: Tensor) -> None:
        """Makes a tensor the next output.

        Args:
            tensor: the tensor.

        Raises:
            ValueError: If it is in another graph, or an output already.
        """
        if tensor not in self:
            raise ValueError(f"{tensor!r} is not in the current Graph, {self!r}.")
        if id(tensor) in map(id, self._outputs):  # there is one object for each tensor
            raise ValueError(f"{tensor!r} is an output of {self!r} already.")
        self._outputs.append(tensor)

    def take_outputs(self) -> list[Tensor]:
        """Returns the outputs, and makes them no outputs of the graph; for transforms.

        What calls the graph keeps its own: as many outputs, like these, have to be added again.
        """
        outputs, self._outputs = self._outputs, []
        return outputs

    def remove_outputs(self, tensors: Iterable[Tensor]) -> None:
        """Makes tensors no outputs any more.

        Args:
            tensors: outputs of the graph.

        Raises:
            ValueError: If one is no output.
        """
        for tensor in tensors:
            self._outputs.remove(tensor)
