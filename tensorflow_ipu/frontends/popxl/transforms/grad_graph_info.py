"""`GradGraphInfo`: the expected inputs and outputs of a gradient graph."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Graph
    from tensorflow_ipu.frontends.popxl.tensor import Tensor


class _Site(Protocol):
    """A call of a graph (`popxl.ops.CallSiteInfo`)."""

    @property
    def called_graph(self) -> Any:
        """The graph."""

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Returns the tensor outside that belongs to an input or output."""


class ExpectedConnectionType(enum.Enum):
    """Whether a tensor of a gradient graph stands for a forward tensor or for its gradient."""

    Fwd = "Fwd"
    FwdGrad = "FwdGrad"


class ExpectedConnection:
    """The forward tensor of an input or output of a gradient graph, or its gradient."""

    _type: ExpectedConnectionType
    _tensor: Tensor

    def __init__(self) -> None:
        raise TypeError("ExpectedConnection should not be constructed directly.")

    @classmethod
    def create(cls, kind: ExpectedConnectionType, tensor: Tensor) -> ExpectedConnection:
        """Makes a connection, for builders of gradient graphs.

        Args:
            kind: whether it stands for the tensor or for its gradient.
            tensor: the forward tensor.
        """
        connection = object.__new__(cls)
        connection._type = kind
        connection._tensor = tensor
        return connection

    def __repr__(self) -> str:
        return f"({self._type.value}, {self._tensor!r})"

    @property
    def connection_type(self) -> ExpectedConnectionType:
        """Whether it stands for the tensor or for its gradient."""
        return self._type

    @property
    def fwd_tensor(self) -> Tensor:
        """The forward tensor."""
        return self._tensor


class GradGraphInfo:
    """A gradient graph, with the connections of its inputs and outputs."""

    _graph: Graph
    _forward: Graph
    _inputs: tuple[ExpectedConnection, ...]
    _outputs: tuple[ExpectedConnection, ...]

    def __init__(self) -> None:
        raise TypeError("GradGraphInfo should not be constructed directly. autodiff returns it.")

    @classmethod
    def create(
        cls,
        graph: Graph,
        forward: Graph,
        inputs: Sequence[ExpectedConnection],
        outputs: Sequence[ExpectedConnection],
    ) -> GradGraphInfo:
        """Makes the description of a gradient graph, for builders of such graphs.

        Args:
            graph: the gradient graph.
            forward: the graph that was differentiated.
            inputs: the connections of the gradient graph's inputs.
            outputs: the connections of its outputs.
        """
        info = object.__new__(cls)
        graph.is_gradient = True
        info._graph, info._forward = graph, forward
        info._inputs, info._outputs = tuple(inputs), tuple(outputs)
        return info

    def __repr__(self) -> str:
        return f"GradGraphInfo[{self._graph!r} of {self._forward!r}]"

    @property
    def graph(self) -> Graph:
        """The gradient graph."""
        return self._graph

    @property
    def forward_graph(self) -> Graph:
        """The graph that was differentiated."""
        return self._forward

    @property
    def expected_inputs(self) -> tuple[ExpectedConnection, ...]:
        """The connections of the gradient graph's inputs, in order."""
        return self._inputs

    @property
    def expected_outputs(self) -> tuple[ExpectedConnection, ...]:
        """The connections of the gradient graph's outputs, in order."""
        return self._outputs

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The forward tensors of `expected_inputs`."""
        return tuple(connection.fwd_tensor for connection in self._inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The forward tensors of `expected_outputs`."""
        return tuple(connection.fwd_tensor for connection in self._outputs)

    def inputs_dict(self, fwd_call_info: _Site) -> dict[Tensor, Tensor]:
        """Returns the operands for the forward tensors that the gradient graph reads.

        Args:
            fwd_call_info: a call of the graph that was differentiated.

        Returns:
            Tensors of the caller by input of the gradient graph.

        Raises:
            TypeError: If it is a call of another graph.
        """
        self._check(fwd_call_info)
        return {
            tensor: fwd_call_info.graph_to_parent(connection.fwd_tensor)
            for tensor, connection in zip(self._graph.inputs, self._inputs)
            if connection.connection_type is ExpectedConnectionType.Fwd
        }

    def fwd_graph_ins_to_grad_parent_outs(self, grad_call_info: _Site) -> dict[Tensor, Tensor]:
        """Returns the gradients that a call returned, by input of the forward graph.

        Args:
            grad_call_info: a call of the gradient graph.
        """
        return {
            connection.fwd_tensor: grad_call_info.graph_to_parent(tensor)
            for tensor, connection in zip(self._graph.outputs, self._outputs)
        }

    def fwd_parent_ins_to_grad_parent_outs(
        self, fwd_call_info: _Site, grad_call_info: _Site
    ) -> dict[Tensor, Tensor]:
        """Returns the gradients of a call, by operand of the forward call.

        Args:
            fwd_call_info: a call of the graph that was differentiated.
            grad_call_info: the call of the gradient graph.

        Raises:
            TypeError: If the first is a call of another graph.
        """
        self._check(fwd_call_info)
        gradients = self.fwd_graph_ins_to_grad_parent_outs(grad_call_info)
        return {
            fwd_call_info.graph_to_parent(tensor): gradient
            for tensor, gradient in gradients.items()
        }

    def _check(self, site: _Site) -> None:
        if site.called_graph is not self._forward:
            raise TypeError(
                f"The graph of the call, {site.called_graph!r}, does not match the graph that was "
                f"differentiated: {self._forward!r}."
            )
